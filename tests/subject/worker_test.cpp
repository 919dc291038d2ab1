// Subjects in a worker process: what they return, how they die, and what they may not do.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "folders.h"
#include "subject/process.h"
#include "subject/runner.h"
#include "support.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using contract::Contract;
using ::testing::HasSubstr;

class WorkerTest : public HostCodeTest {
 protected:
  RunnerOptions options() const {
    RunnerOptions options;
    options.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.cudart = std::string(kBinaryFolder) + "/lib";
    options.timeout = timeout_;
    options.memory = 1e9;
    return options;
  }

  Observation observe(const char* symbol, int calls = 1, trial::Condition condition = {}) {
    const Contract contract = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
    Subject subject;
    subject.library = folder_->path("subject.so");
    subject.files = {"k.cu"};  // built here, so what it lacks is its own fault
    subject.symbol = symbol;
    Runner runner(contract, subject, options());
    trial::Trial trial = trial_of(100);
    trial.condition = condition;
    bindings_ = *trial::make_inputs(contract, trial);
    Observation observation;
    for (int i = 0; i < calls; ++i) observation = runner.run(trial, bindings_);
    return observation;
  }

  // "environment-probe error": the worst of what was reported.
  static std::string found(const Observation& observation) {
    std::string worst;
    for (const protocol::Event& event : observation.events) {
      const auto* found = std::get_if<protocol::FindingEvent>(&event);
      if (!found) continue;
      const Finding& finding = found->finding;
      if (worst.empty() || finding.severity == Severity::Error)
        worst = fmt::format("{} {}", to_string(finding.kind), to_string(finding.severity));
    }
    return worst;
  }

  double timeout_ = 20;
  contract::Bindings bindings_;
};

TEST_F(WorkerTest, BringsInputsThereAndOutputsBack) {
  const Observation observation = observe("copy");
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  EXPECT_EQ(observation.calls[0].outputs.at("y")->bytes, bindings_.inputs.at("x")->bytes);
  EXPECT_TRUE(observation.calls[0].changed_inputs.empty());
  EXPECT_TRUE(observation.calls[0].trespasses.empty());
}

TEST_F(WorkerTest, ReportsWhatTheFunctionReturns) {
  EXPECT_EQ(observe("returns_seven").calls.at(0).returned, 7);
}

TEST_F(WorkerTest, KeepsTheProcessForTheNextCall) {
  EXPECT_EQ(observe("counts").calls.at(0).returned, 0);
  EXPECT_EQ(observe("counts", 2).calls.at(0).returned, 5);
}

TEST_F(WorkerTest, OutlivesASubjectThatDies) {
  for (const char* symbol : {"aborts", "leaves", "dereferences", "terminates_itself", "throws"}) {
    const Observation observation = observe(symbol, 2);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
  }
}

TEST_F(WorkerTest, BelievesNoReplyThatIsNotTheWorkers) {
  for (const char* symbol : {"forges", "answers_itself", "answers_otherwise"}) {
    const Observation observation = observe(symbol);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr("repl")) << symbol;
  }
}

TEST_F(WorkerTest, NoticesASubjectThatSilencesTheDevice) {
  const Observation observation = observe("deafens");
  EXPECT_EQ(observation.outcome, CallOutcome::Crashed);
  EXPECT_THAT(observation.error, HasSubstr("events"));
}

TEST_F(WorkerTest, GoesOnAfterASubjectThatDied) {
  const Contract contract = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
  Subject subject;
  subject.library = folder_->path("subject.so");
  subject.symbol = "dies_once";
  Runner runner(contract, subject, options());
  const trial::Trial trial = trial_of(100);
  const contract::Bindings bindings = *trial::make_inputs(contract, trial);
  EXPECT_EQ(runner.run(trial, bindings).outcome, CallOutcome::Crashed);
  subject.symbol = "copy";  // the runner reads it when it starts the next worker
  EXPECT_EQ(runner.run(trial, bindings).outcome, CallOutcome::Ended);
}

TEST_F(WorkerTest, OutlivesAConstructorThatLeaves) {
  const std::string source = folder_->write("early.cpp",
                                            "#include <unistd.h>\n"
                                            "__attribute__((constructor)) static void early() { _exit(0); }\n"
                                            "extern \"C\" int copy() { return 0; }\n");
  const auto built = run_command({"c++", "-shared", "-fPIC", source, "-o", folder_->path("early.so")}, 60);
  ASSERT_TRUE(built && built->status == 0);
  const Contract contract = contract_in(*folder_, "subject.cu", "entry = \"k\"\nreturns = \"int\"");
  Subject subject;
  subject.library = folder_->path("early.so");
  subject.symbol = "copy";
  Runner runner(contract, subject, options());
  const trial::Trial trial = trial_of(100);
  const Observation observation = runner.run(trial, *trial::make_inputs(contract, trial));
  EXPECT_EQ(observation.outcome, CallOutcome::Crashed);
  EXPECT_THAT(observation.error, HasSubstr("loaded"));
}

TEST_F(WorkerTest, StopsASubjectThatHangsFloodsOrEats) {
  timeout_ = 1;
  EXPECT_EQ(observe("hangs").outcome, CallOutcome::TimedOut);
  EXPECT_EQ(observe("stops_itself").outcome, CallOutcome::TimedOut);
  timeout_ = 30;
  EXPECT_EQ(observe("floods").outcome, CallOutcome::Crashed);
  EXPECT_EQ(observe("eats").outcome, CallOutcome::TooLarge);
}

TEST_F(WorkerTest, EndsASubjectThatWantsProcessesNetworkOrOthers) {
  const std::pair<const char*, const char*> cases[] = {
      {"forks", "fork"},
      {"forks_raw", "fork"},
      {"runs", "execve"},
      {"connects", "socket"},
      {"kills", "kill"},
      {"kills_thread", "tkill"},
      {"traces", "ptrace"},
      {"limits_the_judge", "prlimit"},
      {"reads_the_judge", "process_vm_readv"},
      {"hides", "not allowed"},
      {"scribbles", "/tmp/assay-scribble"},
      {"scribbles_unseen", "/tmp/assay-scribble"},
      {"runs_a_command", "system"},
      {"changes_mode", "chmod"},
      {"removes", "unlink(\"/tmp/assay-victim\")"},
      {"renames", "rename"},
  };
  for (const auto& [symbol, said] : cases) {
    const Observation observation = observe(symbol);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr("made a system call that is not allowed")) << symbol;
    EXPECT_THAT(observation.error, HasSubstr(said)) << symbol;
  }
  EXPECT_FALSE(fs::exists("/tmp/assay-scribble"));
}

TEST_F(WorkerTest, LeavesASubjectInItsFolderAlone) {
  for (const char* symbol :
       {"opens_the_judge", "shrinks_the_memory", "sets_preload", "writes_a_file", "threads"}) {
    const Observation observation = observe(symbol);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << symbol << ": " << observation.error;
    EXPECT_EQ(observation.calls.at(0).returned, 0) << symbol;
  }
}

TEST_F(WorkerTest, IsOnTheMachineOfItsTrial) {
  for (uint8_t gpu = 0; gpu < std::size(kGpus); ++gpu) {
    EXPECT_EQ(observe("counts_multiprocessors", 1, {.gpu = gpu}).calls.at(0).returned,
              static_cast<int>(kGpus[gpu].multiprocessors));
  }
  EXPECT_EQ(observe("tells_the_year", 1, {.clock = 2147483645}).calls.at(0).returned, 138);
  EXPECT_EQ(observe("tells_the_year", 1, {.clock = 1736154000}).calls.at(0).returned, 125);
  for (const int64_t clock : {int64_t{0}, int64_t{1736154000}, int64_t{2147483645}})
    EXPECT_EQ(observe("waits_a_moment", 1, {.clock = clock}).calls.at(0).returned, 0) << clock;
}

TEST_F(WorkerTest, CarriesNoNameOfOurs) {
  EXPECT_EQ(observe("finds_names").calls.at(0).returned, 0);
}

TEST_F(WorkerTest, TellsOfProbes) {
  for (const char* symbol :
       {"reads_command_line", "reads_by_stream", "reads_through_link", "reads_by_folder", "reads_in_thread",
        "reads_the_worker", "asks_for_settings", "asks_for_sandbox", "opens_the_judge"}) {
    const Observation observation = observe(symbol);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << symbol << ": " << observation.error;
    EXPECT_EQ(observation.calls.at(0).returned, 0) << symbol;
    EXPECT_EQ(found(observation), "environment-probe error") << symbol;
  }
  EXPECT_EQ(found(observe("looks_for_driver")), "environment-probe warning");
}

TEST_F(WorkerTest, TellsOfRefusedCalls) {
  for (const char* symbol :
       {"forks", "runs", "runs_a_command", "connects", "removes", "renames", "scribbles"})
    EXPECT_EQ(found(observe(symbol)), "forbidden-call error") << symbol;
  const Observation made = observe("makes_a_folder");
  ASSERT_EQ(made.outcome, CallOutcome::Ended) << made.error;
  EXPECT_EQ(made.calls.at(0).returned, 0);
  EXPECT_EQ(found(made), "forbidden-call warning");
  EXPECT_FALSE(fs::exists("/tmp/assay-made"));
}

TEST_F(WorkerTest, SaysNothingOfWhatProgramsOrdinarilyDo) {
  for (const char* symbol : {"is_ordinary", "loads_a_library", "makes_a_temporary_file"}) {
    const Observation observation = observe(symbol);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << symbol << ": " << observation.error;
    EXPECT_EQ(observation.calls.at(0).returned, 0) << symbol;
    EXPECT_EQ(found(observation), "") << symbol;
  }
}

TEST_F(WorkerTest, TellsLeaksFromCaches) {
  for (const char* symbol : {"leaks", "leaks_sometimes"})
    EXPECT_EQ(found(observe(symbol, 1, {.ordered = false, .looped = true})), "leak error") << symbol;
  for (const char* symbol : {"keeps_a_ring", "keeps_one", "copy"})
    EXPECT_EQ(found(observe(symbol, 1, {.ordered = false, .looped = true})), "") << symbol;
  EXPECT_EQ(found(observe("leaks")), "");  // one call shows nothing
}

TEST_F(WorkerTest, NoticesAClosedChannelForgedEventsAndThreads) {
  const std::pair<const char*, const char*> cases[] = {{"hangs_up", "closed the channel"},
                                                       {"forges_events", "channel of the device"},
                                                       {"floods_threads", "threads"}};
  for (const auto& [symbol, said] : cases) {
    const Observation observation = observe(symbol);
    EXPECT_EQ(observation.outcome, CallOutcome::Crashed) << symbol << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr(said)) << symbol;
  }
}

TEST_F(WorkerTest, NamesAFunctionThatIsNotThere) {
  const Observation observation = observe("no_such_function");
  EXPECT_EQ(observation.outcome, CallOutcome::Crashed);
  EXPECT_THAT(observation.error, HasSubstr("no_such_function"));
}

}  // namespace
}  // namespace assay::subject
