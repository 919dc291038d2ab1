// Single calls at states of the model: what training at its first steps does not show.
#include "train/examine.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "finding/message.h"
#include "train/host_candidate.h"

namespace assay::train {
namespace {

using ::testing::ElementsAre;

// The names of the states up to the first that fails.
std::vector<std::string> state_names(const Report& report) {
  std::vector<std::string> all;
  for (const StateReport& state : report.states) all.push_back(state.name);
  return all;
}

Report examined_report(Candidate candidate) {
  Options options;
  options.sizes = {.vocabulary = 64,
                   .width = 16,
                   .heads = 2,
                   .layers = 1,
                   .feed_forward = 24,
                   .sequence = 16,
                   .sequences = 4};
  options.threads = 1;
  options.teacher_steps = 1;
  options.teacher_only = true;
  return train(examined(std::move(candidate)), options);
}

Candidate with_change(std::string_view slot, std::string_view output,
                      float (*change)(const Operands<float>&, int64_t, float)) {
  return host_candidate(slot, [output, change](Operands<float>& at) {
    Array<float>& values = at[output];
    for (int64_t i = 0; i < values.count(); ++i) values.data()[i] = change(at, i, values.data()[i]);
  });
}

class RightCalls : public ::testing::TestWithParam<const Slot*> {};
TEST_P(RightCalls, AreWithinRoundingAtEveryState) {
  const Report report = examined_report(host_candidate(GetParam()->name));
  for (const Finding& finding : report.findings)
    ADD_FAILURE() << finding.found.found_with << ": " << message(finding);
  ASSERT_EQ(report.states.size(), model_states({}).size());
  for (const StateReport& state : report.states) EXPECT_GT(state.calls, 0) << state.name;
  EXPECT_GT(report.states.front().elements, 0);
}
std::vector<const Slot*> some_slots() {
  std::vector<const Slot*> some;
  for (const char* name : {"rmsnorm", "swiglu", "cross_entropy_grad"}) some.push_back(slot_named(name));
  return some;
}
INSTANTIATE_TEST_SUITE_P(Slots, RightCalls, ::testing::ValuesIn(some_slots()),
                         [](const auto& slot) { return std::string(slot.param->name); });

TEST(WrongCalls, ASecondRoundingShowsInTheFirstBatch) {
  const Report report =
      examined_report(with_change("swiglu", "y", [](const Operands<float>&, int64_t, float y) {
        return static_cast<float>(contract::rounded(DType::f16, y));  // eleven bits, then eight
      }));
  EXPECT_EQ(report.verdict, judge::Verdict::Fail);
  EXPECT_EQ(report.states.back().name, "first batch") << ::testing::PrintToString(state_names(report));
  EXPECT_EQ(report.states.back().failed_site, "layer 0 activation");
}

TEST(WrongCalls, ATailThatIsLeftOutShowsAtOddSizes) {
  const Report report =
      examined_report(with_change("swiglu", "y", [](const Operands<float>& at, int64_t i, float y) {
        return i % at.dim("F") < at.dim("F") / 8 * 8 ? y : 0;
      }));
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "odd sizes"));
}

TEST(WrongCalls, AnExponentialThatOverflowsShowsLateInTraining) {
  const Report report =
      examined_report(with_change("swiglu", "y", [](const Operands<float>& at, int64_t i, float) {
        const float gate = at["gate"].data()[i], grown = std::exp(gate);
        return gate * (grown / (1 + grown)) * at["value"].data()[i];
      }));
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "odd sizes", "late training"));
}

TEST(WrongCalls, OneGradientForAllTokensShowsWherePaddingHasNone) {
  const Report report = examined_report(
      with_change("cross_entropy_grad", "dlogits", [](const Operands<float>& at, int64_t i, float) {
        const int64_t V = at.dim("V"), t = i / V;
        const float p = std::exp(at["logits"].data()[i] - at["lse"].data()[t]);
        return (p - (at["targets"].integers[static_cast<std::size_t>(t)] == i % V ? 1.0f : 0.0f)) *
               at["dloss"].data()[0];
      }));
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "odd sizes"));
}

TEST(WrongCalls, EpsilonInTheWrongPlaceShowsWhereTheStreamIsQuiet) {
  const Report report =
      examined_report(with_change("rmsnorm", "y", [](const Operands<float>& at, int64_t i, float) {
        const int64_t D = at.dim("D");
        double squares = 0;
        for (int64_t d = 0; d < D; ++d)
          squares += std::pow(static_cast<double>(at["x"].data()[i / D * D + d]), 2);
        const double root =
            std::sqrt(squares / static_cast<double>(D)) + static_cast<double>(at.scalar("eps"));
        return static_cast<float>(static_cast<double>(at["x"].data()[i] * at["w"].data()[i % D]) / root);
      }));
  EXPECT_EQ(report.verdict, judge::Verdict::Fail);
  EXPECT_FALSE(report.states.back().failed_site.empty()) << ::testing::PrintToString(state_names(report));
}

TEST(WrongCalls, ANaNThatIsHiddenShowsWhereAnInputOverflowed) {
  const Report report = examined_report(with_change(
      "swiglu", "y", [](const Operands<float>&, int64_t, float y) { return std::isnan(y) ? 0.0f : y; }));
  EXPECT_EQ(report.states.back().name, "overflow") << ::testing::PrintToString(state_names(report));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().kind, Kind::Nonfinite);
}

TEST(LegalInputs, AreMovedToWhatTheContractAllows) {
  std::string text = contract_text(*slot_named("swiglu"));
  text.replace(text.find("values = \"activations\""), 22, "values = \"real(-2, 3)\"");
  const auto contract = contract::parse(text, "slot.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const auto judge = CallJudge::make(*contract);
  ASSERT_TRUE(judge);
  contract::Bindings bindings{.shape = {{"T", 1}, {"F", 3}}, .scalars = {}, .inputs = {}};
  const double values[] = {-5, 1.5, 7};
  for (const char* name : {"gate", "value"})
    bindings.inputs[name] =
        std::make_shared<const contract::Tensor>(contract::Tensor::of(DType::bf16, {1, 3}, values));
  const auto legal = (*judge)->legal(bindings);
  ASSERT_TRUE(legal);
  EXPECT_THAT(legal->inputs.at("gate")->to_doubles(), ElementsAre(-2, 1.5, 3));
  EXPECT_THAT(legal->inputs.at("value")->to_doubles(), ElementsAre(-5, 1.5, 7));
}

TEST(LegalInputs, OfALogarithmAreNotMovedFarBelowIt) {
  const auto judge =
      CallJudge::make(*contract::parse(contract_text(*slot_named("cross_entropy_grad")), "slot.toml"));
  ASSERT_TRUE(judge);
  contract::Bindings bindings{.shape = {{"T", 1}, {"V", 1}}, .scalars = {}, .inputs = {}};
  for (const double lse : {3.0, 8.5, 150.0}) {
    bindings.inputs["lse"] =
        std::make_shared<const contract::Tensor>(contract::Tensor::of(DType::f32, {1}, std::vector{lse}));
    EXPECT_EQ((*judge)->legal(bindings).has_value(), lse < 100) << lse;
  }
}

}  // namespace
}  // namespace assay::train
