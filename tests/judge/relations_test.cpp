#include "judge/relations.h"

#include <gtest/gtest.h>

#include <cmath>

#include "finding/print.h"
#include "operators.h"
#include "trial/plan.h"
#include "trial/shapes.h"

namespace assay::judge::testing {
namespace {

struct Related {
  Contract contract;
  reference::Reference reference;
  Bindings bindings;
};

Related setting_from(const std::string& text, int64_t size = 33) {
  auto contract = contract::parse(text);
  EXPECT_TRUE(contract) << contract.error().text();
  auto reference = reference::Reference::make(*contract);
  trial::Trial trial;
  trial.shape = trial::uniform_shape(*contract, size);
  for (const contract::ScalarSpec& spec : contract->scalars)
    trial.scalars[spec.name] = contract::Scalar::of(spec.dtype, spec.values[0]);
  auto bindings = trial::make_inputs(*contract, trial);
  return {std::move(*contract), std::move(*reference), std::move(*bindings)};
}

const Operator& operator_named(const std::string& name) {
  return *std::find_if(operators().begin(), operators().end(),
                       [&](const Operator& one) { return one.name == name; });
}

Related setting_of(const std::string& name, const std::string& more = "") {
  return setting_from(operator_named(name).contract + more);
}

// Findings of all relations, where a call gives what `run` gives.
std::vector<Finding> related(const Related& setting, const Implementation& run, bool tensor_cores = false) {
  std::vector<Finding> findings;
  const Outputs first = run({setting.contract, setting.bindings});
  for (const Companion& companion : companions(setting.contract, setting.reference, setting.bindings)) {
    const Outputs second = run({setting.contract, companion.bindings});
    const auto judgement = judge(setting.contract, setting.reference, companion.bindings, second,
                                 {.tensor_cores = tensor_cores, .diagnose = false});
    EXPECT_TRUE(judgement) << judgement.error().text();
    findings.insert(findings.end(), judgement->findings.begin(), judgement->findings.end());
    for (Finding& finding :
         compare(setting.contract, setting.reference, setting.bindings, companion, first, second))
      findings.push_back(std::move(finding));
  }
  return findings;
}

using Texts = std::set<std::string>;

// The relation that a finding says is broken; "judged" where it is about one call.
std::string relation_of(const Finding& finding) {
  const auto& numeric = std::get<evidence::Numeric>(finding.evidence);
  return numeric.difference ? numeric.difference->relation : "judged";
}

Texts texts(const Related& setting) {
  Texts found;
  for (const Companion& companion : companions(setting.contract, setting.reference, setting.bindings))
    found.insert(companion.text);
  return found;
}

Texts with_slices(Texts texts, std::initializer_list<std::string> dims) {
  for (const std::string& dim : dims)
    texts.merge(Texts{"the second half along " + dim + " with other contents",
                      "the slices along " + dim + " in another order", "only the last slices along " + dim,
                      "more slices along " + dim});
  return texts;
}

std::string permuted(const std::string& dim) {
  return "the slices along " + dim + " in another order";
}

TEST(Relations, FollowFromTheReference) {
  EXPECT_EQ(texts(setting_of("row sum f32")), with_slices({"x times 4", "x negated", permuted("N")}, {"M"}));
  EXPECT_EQ(texts(setting_of("matrix product f32")),
            with_slices({"a times 4", "a negated", "b times 4", "b negated", permuted("K")}, {"M", "N"}));
  // eps spoils the scale of x; the gain is a factor; columns share their row's norm.
  EXPECT_EQ(texts(setting_of("rms norm")), with_slices({"w times 4", "w negated", permuted("N")}, {"M"}));
  EXPECT_EQ(texts(setting_of("softmax f32")), with_slices({permuted("N")}, {"M"}));
  EXPECT_EQ(texts(setting_of("silu f32")), with_slices({}, {"N"}));
  // Tokens are places along V, and sums go over T; D cannot grow.
  EXPECT_EQ(texts(setting_of("embedding gradient")),
            (Texts{"dy times 4", "dy negated", permuted("T"), permuted("D"), "only the last slices along D",
                   "the second half along D with other contents"}));
}

std::string vector_contract(const std::string& formula, const std::string& values = "real") {
  return R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N"]
[dims]
N = { min = 1, max = 20000 }
[tensors.x]
dtype = "f32"
shape = ["N"]
values = ")" +
         values + R"("
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = ")" +
         formula + "\"\n";
}

TEST(Relations, OrderAndOddFunctionsAndLegalValuesCount) {
  EXPECT_EQ(texts(setting_from(vector_contract("y[i] = sum[k in 0..i + 1](x[k])"))),
            with_slices({"x times 4", "x negated"}, {"N"}));
  EXPECT_EQ(texts(setting_from(vector_contract("y[i] = tanh(x[i])"))), with_slices({}, {"N"}));
  EXPECT_EQ(texts(setting_from(vector_contract("y[i] = 2 * x[i]", "positive"))),
            with_slices({"x times 4"}, {"N"}));
  EXPECT_EQ(texts(setting_from(vector_contract("y[i] = 2 * x[i]", "real(-1, 1)"))), with_slices({}, {"N"}));
}

Implementation elements_of_x(std::function<float(float, int64_t)> f) {
  return [=](const Call& call) {
    const std::vector<float> x = call.in("x");
    Tensor y = call.out("y");
    for (std::size_t i = 0; i < x.size(); ++i)
      y.store(static_cast<int64_t>(i), f(x[i], static_cast<int64_t>(i)));
    Outputs outputs;
    outputs["y"] = std::make_shared<const Tensor>(std::move(y));
    return outputs;
  };
}

// One element of many is another formula's: it is not among those that a relation was tried on.
TEST(Relations, AreConfirmedWhereTheyBreak) {
  const Related setting = setting_from(
      vector_contract("y[i] = if i == 1234 then 1 else 3 * x[i]") + "[require]\nbatch_invariant = [\"N\"]\n",
      20000);
  EXPECT_TRUE(texts(setting).count("the slices along N in another order"));
  const auto findings =
      related(setting, elements_of_x([](float x, int64_t i) { return i == 1234 ? 1 : 3 * x; }));
  for (const Finding& finding : findings) ADD_FAILURE() << message(finding);
}

TEST(Relations, SoundImplementationsKeepThem) {
  for (const Operator& op : operators()) {
    const Related setting = setting_of(op.name);
    for (const Variant& variant : op.variants) {
      if (!variant.kinds.empty()) continue;
      for (const Finding& finding : related(setting, variant.run, variant.tensor_cores))
        ADD_FAILURE() << op.name << ", " << variant.name << ": " << message(finding);
    }
  }
}

// The last rows, fewer than a tile, are summed in another order: sound, but not to be promised as the same
// bits.
TEST(Relations, BitsOfASliceCountWhereTheyArePromised) {
  const Implementation tiled = [](const Call& call) {
    const std::vector<float> x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < n; ++k)
        sum += x[static_cast<std::size_t>(i * n + (i >= m / 8 * 8 ? n - 1 - k : k))];
      y.store(i, sum);
    }
    Outputs outputs;
    outputs["y"] = std::make_shared<const Tensor>(std::move(y));
    return outputs;
  };
  EXPECT_TRUE(related(setting_of("row sum f32"), tiled).empty());
  const auto findings = related(setting_of("row sum f32", "[require]\nbatch_invariant = [\"M\"]\n"), tiled);
  Texts relations;
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.kind, Kind::Nondeterministic);
    EXPECT_EQ(finding.severity, Severity::Error);
    relations.insert(relation_of(finding));
  }
  EXPECT_EQ(relations, (Texts{"permuted", "split", "padded"}));
}

// Right for the first call's shape: wrong where there is one row more than a tile.
TEST(Relations, RelatedCallsAreJudged) {
  const Implementation run = [](const Call& call) {
    const std::vector<float> x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < (m % 4 == 0 ? m - 1 : m); ++i) {
      float sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += x[static_cast<std::size_t>(i * n + k)];
      y.store(i, sum);
    }
    Outputs outputs;
    outputs["y"] = std::make_shared<const Tensor>(std::move(y));
    return outputs;
  };
  const auto findings = related(setting_of("row sum f32"), run);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].severity, Severity::Error);
}

// Most of these numbers are rounded to zero in the first call, and none in the second: that breaks no relation.
TEST(Relations, OfResultsRoundedToZeroNothingFollows) {
  std::string text = vector_contract("y[i] = x[i]");
  text.replace(text.find("f32", text.find("tensors.y")), 3, "e2m1");
  Related setting = setting_from(text);
  Tensor values = Tensor::zeros(DType::f32, {33});
  for (int64_t i = 0; i < values.count(); ++i) values.store(i, 0.01 * static_cast<double>(i));
  setting.bindings.inputs["x"] = std::make_shared<const Tensor>(std::move(values));
  EXPECT_TRUE(texts(setting).count("x times 4"));
  for (const Finding& finding : related(setting, elements_of_x([](float x, int64_t) { return x; })))
    ADD_FAILURE() << message(finding);
}

TEST(Relations, SignsTreatedDifferentlyAreSeen) {
  const Related setting = setting_from(vector_contract("y[i] = x[i] / 3"));
  // Multiplied by the reciprocal, and half an ulp up where positive: within a rounding either way.
  const auto findings = related(setting, elements_of_x([](float x, int64_t) {
                                  const float y = x * (1.0f / 3);
                                  return y > 0 ? std::nextafter(y, 1e30f) : y;
                                }));
  Texts relations;
  for (const Finding& finding : findings) relations.insert(relation_of(finding));
  EXPECT_TRUE(relations.count("negated"));
}

// Small enough to pass for rounding in most elements.
TEST(Relations, HiddenConstantsAndLeaksBreakThem) {
  const Related setting = setting_of("row sum f32");
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
  ASSERT_EQ(constant.size(), 2u);
  EXPECT_EQ(relation_of(constant[0]), "negated");
  EXPECT_EQ(relation_of(constant[1]), "scaled");
  EXPECT_EQ(constant[0].severity, Severity::Warning);
  const auto leak = related(setting, [&](const Call& call) {
    return rows(call, [&](const float* x, int64_t i, int64_t n) {
      float sum = 1e-5f * x[(call.dim("M") - 1) * n];  // of the last row
      for (int64_t k = 0; k < n; ++k) sum += x[i * n + k];
      return sum;
    });
  });
  EXPECT_TRUE(std::any_of(leak.begin(), leak.end(),
                          [](const Finding& finding) { return relation_of(finding) == "others"; }));
}

}  // namespace
}  // namespace assay::judge::testing
