#include "judge/relations.h"

#include <gtest/gtest.h>

#include <cmath>

#include "operators.h"
#include "trial/plan.h"
#include "trial/shapes.h"

namespace assay::judge::testing {
namespace {

struct Setting {
  Contract contract;
  contract::Reference reference;
  Bindings bindings;
};

Setting setting_of(const std::string& name) {
  const auto op = std::find_if(operators().begin(), operators().end(),
                               [&](const Operator& one) { return one.name == name; });
  auto contract = contract::parse(op->contract);
  auto reference = contract::Reference::make(*contract);
  trial::Trial trial;
  trial.shape = trial::uniform_shape(*contract, 33);
  for (const contract::ScalarSpec& spec : contract->scalars)
    trial.scalars[spec.name] = contract::Scalar::of(spec.dtype, spec.values[0]);
  auto bindings = trial::make_inputs(*contract, trial);
  return {std::move(*contract), std::move(*reference), std::move(*bindings)};
}

// Findings of all relations, where a call gives what `run` gives.
std::vector<Finding> related(const Setting& setting, const Implementation& run) {
  std::vector<Finding> findings;
  const Outputs first = run({setting.contract, setting.bindings});
  for (const Companion& companion : companions(setting.contract, setting.reference, setting.bindings)) {
    for (Finding& finding :
         compare(setting.contract, companion, first, run({setting.contract, companion.bindings})))
      findings.push_back(std::move(finding));
  }
  return findings;
}

std::set<std::string> texts(const Setting& setting) {
  std::set<std::string> found;
  for (const Companion& companion : companions(setting.contract, setting.reference, setting.bindings))
    found.insert(companion.text);
  return found;
}

TEST(Relations, FollowFromTheReference) {
  using Texts = std::set<std::string>;
  EXPECT_EQ(texts(setting_of("row sum f32")),
            (Texts{"x times 4", "the second half along M with other contents"}));
  // eps spoils the scale of x; the gain is a factor; columns share their row's norm.
  EXPECT_EQ(texts(setting_of("rms norm")),
            (Texts{"w times 4", "the second half along M with other contents"}));
  EXPECT_EQ(texts(setting_of("softmax f32")), (Texts{"the second half along M with other contents"}));
  EXPECT_EQ(texts(setting_of("silu f32")), (Texts{"the second half along N with other contents"}));
}

TEST(Relations, SoundImplementationsKeepThem) {
  for (const Operator& op : operators()) {
    const Setting setting = setting_of(op.name);
    for (const Variant& variant : op.variants) {
      if (!variant.kinds.empty()) continue;
      for (const Finding& finding : related(setting, variant.run))
        ADD_FAILURE() << op.name << ", " << variant.name << ": " << finding.message;
    }
  }
}

// Small enough to pass for rounding in most elements.
TEST(Relations, HiddenConstantsAndLeaksBreakThem) {
  const Setting setting = setting_of("row sum f32");
  const auto rows = [&](const Call& call, const std::function<float(const float*, int64_t, int64_t)>& sum) {
    const std::vector<float> x = call.in("x");
    Tensor y = call.out("y");
    const int64_t n = call.dim("N");
    for (int64_t i = 0; i < call.dim("M"); ++i) y.store(i, sum(x.data(), i, n));
    Outputs outputs;
    outputs["y"] = std::make_shared<const Tensor>(std::move(y));
    return outputs;
  };
  const auto constant = related(setting, [&](const Call& call) {
    return rows(call, [](const float* x, int64_t i, int64_t n) {
      float sum = 1e-7f;
      for (int64_t k = 0; k < n; ++k) sum += x[i * n + k];
      return sum;
    });
  });
  ASSERT_EQ(constant.size(), 1u);
  EXPECT_EQ(constant[0].evidence["relation"], "scaled");
  EXPECT_EQ(constant[0].severity, Severity::Warning);
  const auto leak = related(setting, [&](const Call& call) {
    return rows(call, [&](const float* x, int64_t i, int64_t n) {
      float sum = 1e-5f * x[(call.dim("M") - 1) * n];  // of the last row
      for (int64_t k = 0; k < n; ++k) sum += x[i * n + k];
      return sum;
    });
  });
  ASSERT_EQ(leak.size(), 1u);
  EXPECT_EQ(leak[0].evidence["relation"], "others");
}

}  // namespace
}  // namespace assay::judge::testing
