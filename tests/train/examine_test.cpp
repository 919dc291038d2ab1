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
  for (const char* name : {"rmsnorm", "swiglu_grad", "cross_entropy_grad"}) some.push_back(slot_named(name));
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
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "fourth batch", "odd sizes"));
}

TEST(WrongCalls, AnExponentialThatOverflowsShowsLateInTraining) {
  const Report report =
      examined_report(with_change("swiglu", "y", [](const Operands<float>& at, int64_t i, float) {
        const float gate = at["gate"].data()[i], grown = std::exp(gate);
        return gate * (grown / (1 + grown)) * at["value"].data()[i];
      }));
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "fourth batch", "odd sizes", "late training"));
}

TEST(WrongCalls, OneGradientForAllTokensShowsWherePaddingHasNone) {
  const Report report = examined_report(
      with_change("cross_entropy_grad", "dlogits", [](const Operands<float>& at, int64_t i, float) {
        const int64_t V = at.dim("V"), t = i / V;
        const float p = std::exp(at["logits"].data()[i] - at["lse"].data()[t]);
        return (p - (at["targets"].integers[static_cast<std::size_t>(t)] == i % V ? 1.0f : 0.0f)) *
               at["dloss"].data()[0];
      }));
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "fourth batch", "odd sizes"));
}

// The weights of a norm begin as ones; after some steps they differ, by the optimizer of the cell.
TEST(WrongCalls, AWeightThatIsLeftOutShowsAfterSomeSteps) {
  const Candidate candidate = with_change("rmsnorm", "y", [](const Operands<float>& at, int64_t i, float y) {
    const float weight = at["w"].data()[i % at.dim("D")];
    return weight == 0 ? 0 : y / weight;
  });
  const Report report = examined_report(candidate);
  EXPECT_THAT(state_names(report), ElementsAre("first batch", "fourth batch"));
  EXPECT_EQ(report.states.back().step, 3);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_THAT(report.findings.front().found.found_with,
              ::testing::HasSubstr("(zipf + sgd, state \"fourth batch\")"));
}

// A text whose tokens are no part of a small vocabulary, and one that is too short for long sequences.
TEST(RightCalls, TakeTheirTokensFromAText) {
  Options options;
  options.sizes = {.vocabulary = 256,
                   .width = 16,
                   .heads = 2,
                   .layers = 1,
                   .feed_forward = 24,
                   .sequence = 16,
                   .sequences = 4};
  options.threads = 1;
  options.teacher_steps = 1;
  options.teacher_only = true;
  options.sources = {TokenSource::Text};
  for (int i = 0; i < 100; ++i) options.text += "\xff or\xfe, ";
  const Report report = train(examined(host_candidate("embedding_grad")), options);
  EXPECT_EQ(report.verdict, judge::Verdict::Pass);
  ASSERT_EQ(report.states.size(), model_states({}).size());
  for (const StateReport& state : report.states) EXPECT_GT(state.calls, 0) << state.name << state.problem;
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

// Sums of eight products that are cut, not rounded: each loses less than a serial sum in f32 does, but all lose the same way, so that only
// long sums show it.
CallResult product_with_cut_sums(const contract::Bindings& bindings) {
  const auto dim = [&](const char* name) { return bindings.shape.find(name)->second; };
  const int64_t T = dim("T"), K = dim("K"), N = dim("N");
  const std::vector<double> x = bindings.inputs.at("x")->to_doubles(),
                            w = bindings.inputs.at("w")->to_doubles();
  contract::Tensor y = contract::Tensor::zeros(DType::f32, {T, N});
  for (int64_t t = 0; t < T; ++t)
    for (int64_t n = 0; n < N; ++n) {
      float sum = 0;
      for (int64_t first = 0; first < K; first += 8) {
        double group = static_cast<double>(sum);
        for (int64_t k = first; k < std::min(first + 8, K); ++k)
          group += x[static_cast<std::size_t>(t * K + k)] * w[static_cast<std::size_t>(k * N + n)];
        sum = static_cast<float>(group);
        if (std::abs(static_cast<double>(sum)) > std::abs(group)) sum = std::nextafter(sum, 0.0f);
      }
      y.store(t * N + n, static_cast<double>(sum));
    }
  Outputs outputs;
  outputs.emplace("y", std::move(y));
  return outputs;
}

TEST(WrongCalls, SumsThatAreCutShowWhereTheyAreLong) {
  Candidate candidate = host_candidate(*slot_named("linear"), product_with_cut_sums);
  for (auto& [name, dtype] : candidate.dtypes) dtype = DType::f32;
  std::string text = contract_text(*candidate.slot);
  for (std::size_t at = 0; (at = text.find("\"bf16\"", at)) != std::string::npos;)
    text.replace(at, 6, "\"f32\"");
  const auto contract = contract::parse(text, "slot.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  candidate = examined(std::move(candidate), *contract);
  Options options;
  options.threads = 1;
  Team team(1);
  Transformer<float> model(options.sizes);
  const std::vector<ModelState> states = model_states(options.sizes);
  const auto wrong_at = [&](std::string_view name) {
    Setting setting{
        .candidate = candidate, .options = options, .sizes = options.sizes, .team = team, .model = model};
    setting.note = [](const std::string&) { return false; };
    StateReport report;
    EXPECT_TRUE(examine(setting, TokenSource::Zipf, Optimizer::SGD,
                        *std::ranges::find(states, name, &ModelState::name), report));
    EXPECT_GT(report.calls, 0);
    return report.failed_site;
  };
  EXPECT_EQ(wrong_at("odd sizes"), "");
  EXPECT_EQ(wrong_at("wide feed-forward"), "layer 0 down");
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
  EXPECT_THAT(legal->bindings.inputs.at("gate")->to_doubles(), ElementsAre(-2, 1.5, 3));
  EXPECT_THAT(legal->bindings.inputs.at("value")->to_doubles(), ElementsAre(-5, 1.5, 7));
}

// The logarithm of a sum of exponentials belongs to its logits: moved into the contract's range, 4 to 8, exp(149 - 8) is infinite in any kernel.
TEST(LegalInputs, ThatNoLongerFitTogetherProveNothing) {
  const Candidate right = examined(host_candidate("cross_entropy_grad"));
  const auto examine_at = [&](double lse) {
    contract::Bindings bindings{.shape = {{"T", 1}, {"V", 2}}, .scalars = {}, .inputs = {}};
    const auto give = [&](const char* name, DType dtype, std::vector<int64_t> extents,
                          std::vector<double> values) {
      bindings.inputs[name] = std::make_shared<const contract::Tensor>(
          contract::Tensor::of(dtype, std::move(extents), std::move(values)));
    };
    give("logits", DType::bf16, {1, 2}, {lse - 0.5, lse - 1});
    give("targets", DType::i64, {1}, {1});
    give("lse", DType::f32, {1}, {lse});
    give("dloss", DType::f32, {1}, {0.25});
    return std::get<Examined>(right.examine(bindings, {.threads = 1}));
  };
  for (const double lse : {3.0, 6.0, 8.5}) {  // moved up, in the range, moved down a little
    const Examined examined = examine_at(lse);
    EXPECT_EQ(examined.elements, 2) << lse;
    EXPECT_THAT(examined.findings, ::testing::IsEmpty()) << lse;
  }
  const Examined examined = examine_at(150);
  EXPECT_EQ(examined.elements, 0);
  EXPECT_THAT(examined.problem, ::testing::HasSubstr("no longer consistent"));
  EXPECT_THAT(examined.findings, ::testing::IsEmpty());
}

}  // namespace
}  // namespace assay::train
