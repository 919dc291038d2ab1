// Whole trainings with candidates of the host: wrong ones are rejected, correct ones are not, interrupted ones go on.
#include "train/train.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "base/temporary_folder.h"
#include "finding/message.h"
#include "train/host_candidate.h"

namespace assay::train {
namespace {

using ::testing::HasSubstr;

// As small as a model can be in which the most frequent token occurs some hundred times.
Options small_options() {
  Options options;
  options.sizes = {.vocabulary = 64,
                   .width = 16,
                   .heads = 2,
                   .layers = 1,
                   .feed_forward = 24,
                   .sequence = 32,
                   .sequences = 32};
  options.threads = 1;
  options.teacher_steps = 6;
  options.teacher_only = true;
  return options;
}

// The signals of the last step, for a failure.
std::string described(const Teacher& teacher) {
  std::string text = fmt::format("evidence {}\n", teacher.log10_evidence);
  for (const TensorSignal& s : teacher.signals.back().tensors)
    text += fmt::format("{} {}: gain {} ({}), error {} ({})\n", s.tensor, s.part, s.candidate.gain,
                        s.noise_gain, s.candidate.relative_error, s.noise_error);
  return text;
}

TEST(Train, FindsAGradientSummedInBf16AtTheReferencesWeights) {
  Options options = small_options();
  options.sizes.sequences = 128;  // the most frequent token occurs about a thousand times
  const Report report = train(summed_in_bf16(), options);
  ASSERT_EQ(report.verdict, judge::Verdict::Fail) << described(report.teacher);
  EXPECT_THAT(message(report.findings.front()), HasSubstr("the gradient of the embedding"));
  EXPECT_EQ(report.sites, std::vector<std::string>{"embedding"});
  const auto& evidence = std::get<evidence::Training>(report.findings.front().evidence);
  EXPECT_TRUE(evidence.teacher_forced);
  EXPECT_LT(evidence.gain, 1);
}

// One candidate in each slot: its sums are in another order.
class RightCandidates : public ::testing::TestWithParam<const Slot*> {};
TEST_P(RightCandidates, StayWithinTheNoise) {
  const Report report = train(host_candidate(GetParam()->name), small_options());
  EXPECT_EQ(report.verdict, judge::Verdict::Pass)
      << report.reason << (report.findings.empty() ? "" : message(report.findings.front()));
  EXPECT_LT(report.teacher.log10_evidence, 1) << report.teacher.tensor << " " << report.teacher.part;
  EXPECT_GT(report.candidate_calls, 0);
}

// A result that is two per cent too large in each slot.
class WrongCandidates : public ::testing::TestWithParam<const Slot*> {};
TEST_P(WrongCandidates, AreFound) {
  const Slot* const slot = GetParam();
  const Candidate candidate = host_candidate(slot->name, [slot](Operands<float>& at) {
    for (const SlotTensor& tensor : slot->tensors)
      if (tensor.role != contract::Role::In)
        for (float& value : at[tensor.name].values) value *= 1.02f;
  });
  const Report report = train(candidate, small_options());
  EXPECT_EQ(report.verdict, judge::Verdict::Fail) << report.reason << report.teacher.log10_evidence;
}

std::vector<const Slot*> trained_slots() {
  std::vector<const Slot*> rows;
  for (const Slot& slot : slots()) rows.push_back(&slot);
  return rows;
}
const auto kSlotName = [](const auto& row) { return std::string(row.param->name); };
INSTANTIATE_TEST_SUITE_P(Train, RightCandidates, ::testing::ValuesIn(trained_slots()), kSlotName);
INSTANTIATE_TEST_SUITE_P(Train, WrongCandidates, ::testing::ValuesIn(trained_slots()), kSlotName);

TEST(Train, ReportsNaN) {
  const Candidate candidate =
      host_candidate("rmsnorm_grad", [](Operands<float>& at) { at["dx"].values[3] = NAN; });
  const Report report = train(candidate, small_options());
  ASSERT_EQ(report.verdict, judge::Verdict::Fail);
  EXPECT_EQ(report.findings.front().kind, Kind::TrainingNonfinite);
}

TEST(Train, IsInconclusiveIfACallCannotBeMade) {
  Candidate candidate = host_candidate("rmsnorm");
  candidate.call = [](const contract::Bindings&) -> CallResult {
    return CallFailure{{}, {"there is no such device"}};
  };
  const Report report = train(candidate, small_options());
  EXPECT_EQ(report.verdict, judge::Verdict::Inconclusive);
  EXPECT_THAT(report.reason, HasSubstr("there is no such device"));
}

TEST(Train, FailsWithTheFindingOfACall) {
  Candidate candidate = host_candidate("rmsnorm");
  candidate.call = [](const contract::Bindings&) -> CallResult {
    const Finding finding{.kind = Kind::ClobberedInput, .evidence = evidence::Access{.input = "x"}};
    return CallFailure{{finding}, {"it changed its input `x`"}};
  };
  const Report report = train(candidate, small_options());
  EXPECT_EQ(report.verdict, judge::Verdict::Fail);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Kind::ClobberedInput);
  EXPECT_THAT(report.findings[0].found.found_with, HasSubstr("at embedding norm"));
}

TEST(Train, SaysIfNoSiteFits) {
  Candidate candidate = host_candidate("rmsnorm");
  candidate.refuses = [](const contract::Shape&) { return std::string("too wide"); };
  const Report report = train(candidate, small_options());
  EXPECT_EQ(report.verdict, judge::Verdict::Inconclusive);
  EXPECT_THAT(report.refused, ::testing::Contains(HasSubstr("final norm: too wide")));
}

TEST(Train, HasTheFourRunsOfEachCell) {
  Options options = small_options();
  options.teacher_only = false;
  options.teacher_steps = 1;
  options.steps = 5;
  const Report report = train(host_candidate("swiglu"), options);
  ASSERT_EQ(report.cells.size(), 6u);
  for (const Cell& cell : report.cells) {
    EXPECT_EQ(cell.candidate.loss.size(), 5u);
    EXPECT_EQ(cell.reference.loss.size(), 5u);
    EXPECT_LT(cell.trusted.loss.back(), cell.trusted.loss.front())
        << to_string(cell.source) << to_string(cell.optimizer);
    EXPECT_FALSE(cell.unmasked());
    EXPECT_GT(cell.noise, 0);
  }
}

// A fault of frequent tokens: their rows of the gradient are lost. Uniform tokens have none that are frequent.
TEST(Train, UnmasksAFaultOnlyWhereItShows) {
  const Candidate candidate = host_candidate("embedding_grad", [](Operands<float>& at) {
    const int64_t D = at.dim("D");
    std::vector<int> seen(static_cast<std::size_t>(at.dim("V")), 0);
    for (const int64_t token : at["tokens"].integers) {
      if (++seen[static_cast<std::size_t>(token)] == 100) std::fill_n(at["dw"].data() + token * D, D, 0.0f);
    }
  });
  Options options = small_options();
  options.teacher_only = false;
  options.teacher_steps = 4;
  options.steps = 30;
  options.optimizers = {Optimizer::SGD};
  const Report report = train(candidate, options);
  EXPECT_EQ(report.verdict, judge::Verdict::Fail);
  ASSERT_EQ(report.cells.size(), 2u);
  EXPECT_TRUE(report.cells[0].unmasked()) << report.cells[0].loss_gap << " " << report.cells[0].noise;
  EXPECT_LE(report.cells[0].steps(), options.steps);
  EXPECT_FALSE(report.cells[1].unmasked()) << report.cells[1].loss_gap << " " << report.cells[1].noise;
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[1].kind, Kind::LossGap);
  EXPECT_THAT(message(report.findings[1]), HasSubstr("with zipf tokens and sgd"));
}

// The same fault, with all that a cell is looked at by. A single call is judged by its own sums, a gradient by its rows: both show the
// fault where tokens are frequent, and the cell with uniform tokens hides it from all three.
TEST(Train, LooksAtEveryCellInThreeWays) {
  const Candidate candidate = host_candidate("embedding_grad", [](Operands<float>& at) {
    const int64_t D = at.dim("D");
    std::vector<int> seen(static_cast<std::size_t>(at.dim("V")), 0);
    for (const int64_t token : at["tokens"].integers) {
      if (++seen[static_cast<std::size_t>(token)] == 100) std::fill_n(at["dw"].data() + token * D, D, 0.0f);
    }
  });
  Options options = small_options();
  options.teacher_only = false;
  options.teacher_steps = 4;
  options.steps = 4;
  options.sources = {TokenSource::Uniform, TokenSource::Zipf};
  options.optimizers = {Optimizer::AdamW};
  options.sizes.vocabulary = 48;
  const Report report = train(examined(candidate), options);
  EXPECT_EQ(report.verdict, judge::Verdict::Fail);
  ASSERT_EQ(report.cells.size(), 2u);
  const Cell &uniform = report.cells[0], &zipf = report.cells[1];
  EXPECT_EQ(uniform.teacher.wrong_step(), -1);
  EXPECT_EQ(uniform.teacher.signals.size(), 4u);
  EXPECT_EQ(zipf.teacher.wrong_step(), 1);
  EXPECT_EQ(zipf.teacher.source, TokenSource::Zipf);
  ASSERT_TRUE(zipf.wrong_state());
  EXPECT_EQ(zipf.wrong_state()->name, "first batch");
  EXPECT_EQ(report.teacher.rejected_step, -1);  // of the first cell
  ASSERT_FALSE(report.findings.empty());
  EXPECT_THAT(message(report.findings.front()), HasSubstr("(zipf tokens, adamw, step 1)"));
  // All comparisons together keep to the stated rate.
  EXPECT_EQ(zipf.teacher.false_alarms, options.false_alarms / 2);
}

// Right kernels whose gap was ten times that of one trusted run with another order of summation: chance made the noise small, or the gap early.
TEST(Train, DoesNotTakeChaosForAFault) {
  Options options = small_options();
  options.teacher_only = false;
  options.teacher_steps = 1;
  options.sources = {TokenSource::Zipf};
  options.optimizers = {Optimizer::SGD};
  options.steps = 8;
  for (const uint64_t seed : {21, 34, 40}) {
    options.seed = seed;
    const Report report = train(host_candidate("residual_rmsnorm"), options);
    EXPECT_EQ(report.verdict, judge::Verdict::Pass)
        << seed << (report.findings.empty() ? "" : message(report.findings.front()));
  }
}

// A gap that stands out of one trusted run must stand out of all: what those show is the noise.
TEST(Train, ConfirmsAGap) {
  Options options = small_options();
  options.teacher_only = false;
  options.teacher_steps = 1;
  options.sources = {TokenSource::Zipf};
  options.optimizers = {Optimizer::SGD};
  options.steps = 3;
  std::vector<std::string> doing;
  options.progress = [&](const Progress& now) { doing.push_back(now.doing); };
  const Candidate wrong = host_candidate("rmsnorm_grad", [](Operands<float>& at) {
    for (float& value : at["dx"].values) value *= 2;
  });
  const Report report = train(wrong, options);
  ASSERT_TRUE(report.cells.at(0).unmasked());
  EXPECT_THAT(doing, ::testing::Contains("zipf + sgd, confirming a gap: run 5, step 2"));
}

// Interrupted after each few gradients and started again: the same curves.
TEST(Train, GoesOnFromACheckpoint) {
  Options options = small_options();
  options.teacher_only = false;
  options.teacher_steps = 1;
  options.steps = 3;
  options.optimizers = {Optimizer::Momentum, Optimizer::AdamW};
  const Candidate candidate = examined(host_candidate("swiglu", [](Operands<float>& at) {
    for (float& value : at["y"].values) value *= 1.02f;
  }));
  const Report whole = train(candidate, options);
  const TemporaryFolder folder("train");
  options.checkpoint = folder.file("checkpoint");
  Report report;
  int processes = 0;
  do {
    int gradients = 0;
    options.interrupted = [&] { return ++gradients == 24; };
    report = train(candidate, options);
    ASSERT_LT(++processes, 50);
  } while (report.reason == "interrupted");
  EXPECT_GT(processes, 3);
  EXPECT_TRUE(report.is_resumed);
  ASSERT_EQ(report.cells.size(), whole.cells.size());
  for (std::size_t i = 0; i < whole.cells.size(); ++i) {
    EXPECT_EQ(report.cells[i].candidate.loss, whole.cells[i].candidate.loss);
    EXPECT_EQ(report.cells[i].reordered.loss, whole.cells[i].reordered.loss);
    EXPECT_EQ(report.cells[i].teacher.log10_evidence, whole.cells[i].teacher.log10_evidence);
    ASSERT_EQ(report.cells[i].states.size(), whole.cells[i].states.size());
    EXPECT_EQ(report.cells[i].states.back().failed_site, whole.cells[i].states.back().failed_site);
  }
  ASSERT_EQ(report.findings.size(), whole.findings.size());
  for (std::size_t i = 0; i < whole.findings.size(); ++i)
    EXPECT_EQ(message(report.findings[i]), message(whole.findings[i]));
  EXPECT_EQ(report.sites, whole.sites);
}

// Killed in the middle of the teacher-forced comparison and started again: the same evidence, and no step is made twice.
TEST(Train, GoesOnAfterAKillInTheComparison) {
  Options options = small_options();
  options.teacher_steps = 4;
  const Candidate right = host_candidate("embedding_grad");  // one call in each step
  const Report whole = train(right, options);
  ASSERT_EQ(whole.candidate_calls, 4);
  const TemporaryFolder folder("train");
  options.checkpoint = folder.file("checkpoint");
  options.checkpoint_seconds = 0;
  const pid_t child = fork();
  if (child == 0) {
    int calls = 0;
    Candidate killed = right;
    killed.call = [&](const contract::Bindings& bindings) {
      if (++calls == 3) raise(SIGKILL);
      return right.call(bindings);
    };
    train(killed, options);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  int calls = 0;
  Candidate counted = right;
  counted.call = [&](const contract::Bindings& bindings) {
    ++calls;
    return right.call(bindings);
  };
  const Report report = train(counted, options);
  EXPECT_TRUE(report.is_resumed);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(report.candidate_calls, 4);
  EXPECT_EQ(report.verdict, whole.verdict);
  EXPECT_EQ(report.teacher.log10_evidence, whole.teacher.log10_evidence);
  ASSERT_EQ(report.teacher.signals.size(), whole.teacher.signals.size());
  for (std::size_t i = 0; i < whole.teacher.signals.size(); ++i) {
    const StepSignals &a = report.teacher.signals[i], &b = whole.teacher.signals[i];
    EXPECT_EQ(a.loss, b.loss);
    for (std::size_t j = 0; j < b.tensors.size(); ++j) {
      EXPECT_EQ(a.tensors[j].noise_error, b.tensors[j].noise_error);
      EXPECT_EQ(a.tensors[j].candidate.relative_error, b.tensors[j].candidate.relative_error);
    }
  }
}

}  // namespace
}  // namespace assay::train
