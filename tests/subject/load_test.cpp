// Calls under load, and system calls beside a driver: with the virtual runtime in the place of NVIDIA's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/gpus.h"
#include "base/random.h"
#include "folders.h"
#include "subject/process.h"
#include "subject/runner.h"
#include "support.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LoadTest : public HostCodeTest {
 protected:
  void SetUp() override {
    contract_ = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
    subject_.library = folder_->path("subject.so");
  }

  RunnerOptions options() const {
    RunnerOptions options;
    options.stand_in_seed = schedule_;
    options.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.cuda_runtime = std::string(kBinaryFolder) + "/lib";
    options.device = Device::Cuda;
    options.timeout = 20;
    return options;
  }

  // On what stands in for a GPU, so many times.
  Observation observe(const char* symbol, trial::Condition condition = {}, int calls = 1,
                      bool goes_on = false) {
    subject_.symbol = symbol;
    Runner runner(*contract_, subject_, options());
    runner.set_goes_on(goes_on);
    trial::Trial trial = trial_of(100);
    trial.condition = condition;
    bindings_ = *trial::make_inputs(*contract_, trial);
    Observation observation;
    for (int i = 0; i < calls; ++i) {
      failed_ |= observation.shaken.has_value();
      observation = runner.run(trial, bindings_, condition.overlapped ? &bindings_ : nullptr);
      if (goes_on) usleep(50'000);  // as long as a judge may take
    }
    return observation;
  }

  static std::string found(const Observation& observation) {
    std::string worst;
    for (const protocol::Event& event : observation.events)
      if (const auto* found = std::get_if<protocol::FindingEvent>(&event))
        worst = fmt::format("{} {}", to_string(found->finding.kind), to_string(found->finding.severity));
    return worst;
  }

  std::optional<contract::Contract> contract_;
  Subject subject_;
  contract::Bindings bindings_;
  uint64_t schedule_ = 0;
  bool failed_ = false;  // a repetition of one of the calls before the last
};

constexpr trial::Condition kLoaded{.ordered = false, .loaded = true};

TEST_F(LoadTest, ARightCallGivesTheSameBitsEachTime) {
  const Observation observation = observe("copy", kLoaded);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.load);
  EXPECT_GT(observation.load->repeats, 5);
  EXPECT_FALSE(observation.load->difference);
  EXPECT_FALSE(observation.load->graph_difference);
  EXPECT_EQ(observation.load->no_graph, "");
  EXPECT_EQ(observation.calls.at(0).outputs.at("y")->bytes, bindings_.inputs.at("x")->bytes);
  EXPECT_GT(observation.time.calling, 0);
  EXPECT_GT(observation.time.repeating, 0);
}

TEST_F(LoadTest, TwoCallsAtOnceFromTwoHostThreads) {
  trial::Condition condition = kLoaded;
  condition.overlapped = true;
  const Observation observation = observe("copy", condition);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.load);
  EXPECT_GT(observation.load->repeats, 5);
  EXPECT_FALSE(observation.load->difference);
}

// The first result is copied on the default stream, which the host does not wait for; the next call begins by overwriting
// it on a stream that does not wait either. Which of them comes first is the schedule's choice.
TEST_F(LoadTest, TheFirstResultIsKeptBeforeTheCallIsMadeAgain) {
  for (schedule_ = 1; schedule_ <= 3; ++schedule_) {
    const Observation observation = observe("copy", {.ordered = true, .overlapped = true, .loaded = true});
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
    ASSERT_TRUE(observation.load);
    EXPECT_FALSE(observation.load->difference) << schedule_;
    EXPECT_FALSE(observation.load->graph_difference) << schedule_;
  }
}

TEST_F(LoadTest, ADifferenceIsDescribedAndIsTheResult) {
  const Observation observation = observe("is_wrong_later", kLoaded);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.load);
  ASSERT_TRUE(observation.load->difference);
  const protocol::LoadDifference& difference = *observation.load->difference;
  EXPECT_EQ(difference.buffer, "y");
  EXPECT_EQ(difference.offset / 4, 3);
  EXPECT_NE(difference.before, difference.after);
  EXPECT_EQ(difference.before.size(), 16u);
  // The result that is judged is the one that differs.
  const auto& y = observation.calls.at(0).outputs.at("y");
  EXPECT_EQ(y->load(3), 0);
  EXPECT_EQ(y->load(2), bindings_.inputs.at("x")->load(2));
}

TEST_F(LoadTest, ACallThatCannotBeCapturedSaysSo) {
  const Observation observation = observe("waits_for_the_device", kLoaded);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.load);
  EXPECT_FALSE(observation.load->difference);
  EXPECT_NE(observation.load->no_graph, "");
}

TEST_F(LoadTest, AGraphWithAnotherResultIsTold) {
  const Observation observation = observe("does_less_while_captured", kLoaded);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.load);
  EXPECT_FALSE(observation.load->difference);
  ASSERT_TRUE(observation.load->graph_difference);
  EXPECT_EQ(observation.load->graph_difference->buffer, "y");
}

TEST_F(LoadTest, ACallIsRepeatedUntilTheNextOne) {
  for (const bool ordered : {false, true}) {
    const Observation observation = observe("copy", {.ordered = ordered}, 2, true);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
    EXPECT_GT(observation.repeats, 0);
    EXPECT_FALSE(observation.shaken);
    EXPECT_EQ(observation.calls.at(0).outputs.at("y")->bytes, bindings_.inputs.at("x")->bytes);
  }
  EXPECT_EQ(observe("copy", {.ordered = false}, 2, false).repeats, 0);
}

TEST_F(LoadTest, ARepetitionThatDiffersIsNoticed) {
  const Observation last = observe("is_wrong_later", {.ordered = false}, 4, true);
  EXPECT_TRUE(failed_ || last.shaken);
}

// What a process has repeated is told before it ends, and so is the trial of which a repetition differs.
TEST_F(LoadTest, ANewProcessLosesNoRepetitions) {
  for (const char* symbol : {"copy", "is_wrong_later"}) {
    subject_.symbol = symbol;
    Runner runner(*contract_, subject_, options());
    runner.set_goes_on(true);
    trial::Trial trial = trial_of(100);
    trial.condition = {.ordered = false};
    bindings_ = *trial::make_inputs(*contract_, trial);
    ASSERT_EQ(runner.run(trial, bindings_).repeats, 0);
    usleep(100'000);
    trial::Trial next = trial_of(60);
    next.condition = {.ordered = false, .fresh = true};
    const Observation observation = runner.run(next, *trial::make_inputs(*contract_, next));
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
    EXPECT_GT(observation.repeats, 0) << symbol;
    EXPECT_GT(observation.time.repeating, 0) << symbol;
    ASSERT_EQ(observation.shaken.has_value(), std::string(symbol) == "is_wrong_later") << symbol;
    if (observation.shaken) {
      EXPECT_EQ(observation.shaken->shape, trial.shape);
    }
  }
}

TEST_F(LoadTest, ACallUnderLoadIsRepeatedUntilTheNextOne) {
  subject_.symbol = "copy";
  Runner runner(*contract_, subject_, options());
  runner.set_goes_on(true);
  trial::Trial trial = trial_of(100);
  trial.condition = {.ordered = false, .fresh = false, .loaded = true};
  bindings_ = *trial::make_inputs(*contract_, trial);
  ASSERT_TRUE(runner.run(trial, bindings_).load);
  EXPECT_EQ(runner.calls_in_process(), 0);  // a new one makes the next call
  usleep(100'000);
  trial.condition.loaded = false;
  const Observation observation = runner.run(trial, bindings_);
  EXPECT_GT(observation.repeats, 0);
  EXPECT_FALSE(observation.shaken);
  EXPECT_EQ(runner.calls_in_process(), 1);
}

TEST_F(LoadTest, AfterAFailedCaptureNothingIsRepeated) {
  subject_.symbol = "waits_for_the_device";
  Runner runner(*contract_, subject_, options());
  runner.set_goes_on(true);
  trial::Trial trial = trial_of(100);
  trial.condition = {.ordered = false, .fresh = false, .loaded = true};
  bindings_ = *trial::make_inputs(*contract_, trial);
  ASSERT_TRUE(runner.run(trial, bindings_).load);
  usleep(50'000);
  trial.condition.loaded = false;
  const Observation observation = runner.run(trial, bindings_);
  EXPECT_EQ(observation.repeats, 0);
  EXPECT_FALSE(observation.shaken);
}

// A smaller trial follows a larger one: between its repetitions calls of the larger are made.
TEST_F(LoadTest, ACallOfAnotherSizeIsMadeBetween) {
  subject_.symbol = "remembers_the_size";
  Runner runner(*contract_, subject_, options());
  std::optional<protocol::LoadDifference> difference;
  for (const int64_t n : {200, 100}) {
    trial::Trial trial = trial_of(n);
    trial.condition = {.ordered = false, .fresh = false, .loaded = true};
    while (mix(trial.seed) % 4 != 3)
      ++trial.seed;  // the first repetition is such a one: a busy machine makes few
    bindings_ = *trial::make_inputs(*contract_, trial);
    runner.set_goes_on(true);
    if (n == 200) trial.condition.loaded = false;  // after a trial under load comes a new process
    const Observation observation = runner.run(trial, bindings_);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
    if (observation.load) difference = observation.load->difference;
  }
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->how, "after a call with another shape");
}

// ---- what the subject asks of the runtime passes through the worker

TEST_F(LoadTest, WhatEveryCallKeepsIsALeak) {
  constexpr trial::Condition kMany{.ordered = false, .looped = true};
  EXPECT_EQ(found(observe("leaks_memory", kMany)), "leak error");
  EXPECT_EQ(found(observe("leaks_events", kMany)), "leak error");
  EXPECT_EQ(found(observe("keeps_a_workspace", kMany)), "");
  EXPECT_EQ(found(observe("copy", kMany)), "");
}

TEST_F(LoadTest, NewMemoryIsNotZero) {
  const Observation observation = observe("shows_new_memory", {.ordered = false});
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  for (const std::byte b : observation.calls.at(0).outputs.at("y")->bytes) ASSERT_EQ(b, std::byte{0xff});
}

TEST_F(LoadTest, AnotherMachineAndAnotherDateCanBePresented) {
  const auto shown = [&](uint8_t gpu, int64_t clock) {
    const Observation observation =
        observe("shows_its_machine", {.ordered = false, .gpu = gpu, .clock = clock});
    EXPECT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
    const auto& y = *observation.calls.at(0).outputs.at("y");
    return std::vector<double>{y.load(0), y.load(1), y.load(2)};
  };
  const std::vector<double> own = shown(0, 0), other = shown(1, 2147483645);
  EXPECT_EQ(own[0], kGpus[0].multiprocessors);  // which the virtual device presents
  EXPECT_LT(own[2], 2038 - 1970);
  EXPECT_EQ(other[0], kGpus[1].multiprocessors);
  EXPECT_EQ(other[1], static_cast<double>(kGpus[1].bytes / 1000000000));
  EXPECT_EQ(other[2], 2038 - 1970);
}

TEST_F(LoadTest, NothingIsRepeatedOnTheVirtualDevice) {
  RunnerOptions here = options();
  here.device = Device::Virtual;
  here.cudart = here.cuda_runtime;
  subject_.symbol = "copy";
  Runner runner(*contract_, subject_, here);
  runner.set_goes_on(true);
  trial::Trial trial = trial_of(100);
  trial.condition = kLoaded;
  bindings_ = *trial::make_inputs(*contract_, trial);
  const Observation observation = runner.run(trial, bindings_);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  EXPECT_FALSE(observation.load);
  EXPECT_EQ(observation.repeats, 0);
}

TEST_F(LoadTest, ForbiddenCallsAreSeenBesideADriver) {
  const std::string file = folder_->write("precious", "");
  for (const char* symbol : {"forks", "runs", "connects", "removes", "renames", "scribbles"})
    EXPECT_EQ(found(observe(symbol)), "forbidden-call error") << symbol;
  EXPECT_EQ(found(observe("reads_command_line")), "environment-probe error");
  EXPECT_EQ(found(observe("is_ordinary")), "");
}

TEST_F(LoadTest, AMachineWithoutADriverSaysSo) {
  RunnerOptions nothing = options();
  nothing.cuda_runtime = folder_->path("nowhere");
  subject_.symbol = "copy";
  Runner runner(*contract_, subject_, nothing);
  const trial::Trial trial = trial_of(100);
  const Observation observation = runner.run(trial, *trial::make_inputs(*contract_, trial));
  if (observation.outcome == CallOutcome::Ended) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(observation.outcome, CallOutcome::Unavailable);
  EXPECT_THAT(observation.error, HasSubstr("CUDA"));
}

}  // namespace
}  // namespace assay::subject
