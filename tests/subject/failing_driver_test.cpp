// A GPU that cannot be used: one line that says why, no verdict by accident, and no hang.
#include <gmock/gmock.h>

#include <chrono>

#include "folders.h"
#include "subject/process.h"
#include "subject/runner.h"
#include "support.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FailingDriverTest : public ::testing::Test {
 protected:
  // A call with a runtime whose functions fail so.
  Observation observe(const std::string& fault) {
    const std::string sources = std::string(kSourceFolder) + "/tests/subject/subjects/";
    build({sources + "failing_runtime.cpp", "-D" + fault, "-o", folder_.path("libcudart.so.13")});
    if (!std::filesystem::exists(folder_.path("subject.so"))) {
      folder_.write("k.cpp", "extern \"C\" int k(const float*, float*, int, void*) { return 0; }");
      build({folder_.path("k.cpp"), "-o", folder_.path("subject.so")});
    }
    const contract::Contract contract = contract_in(folder_, "k.cu", "entry = \"k\"\nreturns = \"int\"");
    Subject subject;
    subject.library = folder_.path("subject.so");
    subject.symbol = "k";
    RunnerOptions options;
    options.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.cuda_runtime = folder_.path();
    options.device = Device::Cuda;
    options.timeout = options.loading = 1;
    Runner runner(contract, subject, options);
    trial::Trial trial = trial_of(100);
    trial.condition.ordered = false;
    return runner.run(trial, *trial::make_inputs(contract, trial));
  }

  static void build(std::vector<std::string> words) {
    words.insert(words.begin(), {"c++", "-shared", "-fPIC", "-w"});
    const auto built = run_command(words, 60);
    ASSERT_TRUE(built);
    ASSERT_EQ(built->status, 0) << built->output;
  }

  Folder folder_;
};

TEST_F(FailingDriverTest, IsUnavailableAndSaysWhy) {
  const struct {
    const char *fault, *says;
  } kFaults[] = {
      {"COUNT_FAILS=100", "no CUDA-capable device is detected"},
      {"COUNT_FAILS=35", "driver version is insufficient"},
      {"USE_FAILS=46", "busy or unavailable"},
      {"USE_FAILS=2", "out of memory"},
  };
  for (const auto& [fault, says] : kFaults) {
    const Observation observation = observe(fault);
    EXPECT_EQ(observation.outcome, CallOutcome::Unavailable) << fault << ": " << observation.error;
    EXPECT_THAT(observation.error, HasSubstr(says)) << fault;
    EXPECT_THAT(observation.error, Not(HasSubstr("\n"))) << fault;
  }
}

TEST_F(FailingDriverTest, NoMemoryForTheBuffersIsNotTheSubjectsFault) {
  const Observation observation = observe("MALLOC_FAILS=2");
  EXPECT_EQ(observation.outcome, CallOutcome::NoDeviceMemory) << observation.error;
  EXPECT_THAT(observation.error, HasSubstr("nvidia-smi"));
}

TEST_F(FailingDriverTest, ThatHangsIsGivenUp) {
  const auto begun = std::chrono::steady_clock::now();
  const Observation observation = observe("HANGS");
  EXPECT_EQ(observation.outcome, CallOutcome::Unavailable) << observation.error;
  EXPECT_THAT(observation.error, HasSubstr("assay doctor"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
}

}  // namespace
}  // namespace assay::subject
