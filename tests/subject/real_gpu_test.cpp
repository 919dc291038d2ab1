// What the worker does on a real GPU, with the virtual runtime in the place of NVIDIA's: a toolkit in a folder of its own.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>

#include "folders.h"
#include "subject/runner.h"
#include "support.h"
#include "trial/generated_inputs.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCopy = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  sub.u32 %r1, %r1, MISSING;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f, [%rd4];
  st.global.f32 [%rd5], %f;
DONE:
  ret;
}
)";

class RealGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_.path("toolkit/bin"));
    fs::create_directories(folder_.path("toolkit/lib64"));
    fs::copy(std::string(kBinaryFolder) + "/lib/libcudart.so.13", folder_.path("toolkit/lib64"));
    fs::permissions(folder_.write("toolkit/bin/nvcc", ""), fs::perms::owner_all);
    path_ = std::getenv("PATH");
    setenv("PATH", (folder_.path("toolkit/bin") + ":" + path_).c_str(), 1);
  }
  void TearDown() override { setenv("PATH", path_.c_str(), 1); }

  // y[i] = x[i], but for the last elements.
  Runner runner_of_all_but(const char* missing) {
    std::string ptx = kCopy;
    ptx.replace(ptx.find("MISSING"), 7, missing);
    contract_ =
        contract_in(folder_, "k.ptx", "global = \"copy\"\ngrid = [\"ceil_div(n, 256)\"]\nblock = [256]");
    for (contract::TensorSpec& tensor : contract_->tensors) tensor.align = align_;
    subject_.ptx = folder_.write("k.ptx", ptx);
    subject_.symbol = "copy";
    subject_.launched = true;
    RunnerOptions options;
    options.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.cudart = std::string(kBinaryFolder) + "/lib";
    options.timeout = 20;
    options.device = Device::Cuda;
    return {*contract_, subject_, options};
  }

  Observation run_giant(Runner& runner, int64_t n) {
    trial_ = trial_of(n);
    trial_.sampled = true;
    trial_.condition.ordered = false;
    trial_.seed = 5;
    inputs_.emplace(*trial::GeneratedInputs::make(*contract_, trial_));
    return runner.run(trial_, inputs_->bindings());
  }

  Observation copy_all_but(const char* missing, int64_t n) {
    Runner runner = runner_of_all_but(missing);
    return run_giant(runner, n);
  }

  Folder folder_;
  std::string path_;
  int64_t align_ = 256;
  std::optional<contract::Contract> contract_;
  Subject subject_;
  trial::Trial trial_;
  std::optional<trial::GeneratedInputs> inputs_;
};

TEST_F(RealGpuTest, LooksAtPlacesOfALargeOutput) {
  constexpr int64_t kElements = 200'000;
  const Observation observation = copy_all_but("0", kElements);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.sample);
  EXPECT_TRUE(observation.sample->all_run);
  EXPECT_TRUE(observation.sample->unwritten.empty());
  const Call& call = observation.calls.at(0);
  EXPECT_TRUE(call.trespasses.empty());
  const std::vector<ElementRange>& written = call.written.at("y");
  ASSERT_GT(written.size(), 50u);
  EXPECT_EQ(written.front().first, 0);
  EXPECT_EQ(written.back().first + written.back().count, kElements);
  // The device made the inputs that the reference makes.
  const GeneratedValues values = *trial::generated_values(contract_->tensors[0], trial_);
  for (const ElementRange& range : written) {
    std::vector<std::byte> expected(static_cast<std::size_t>(4 * range.count));
    make_values(values, static_cast<uint64_t>(range.first), static_cast<uint64_t>(range.count),
                expected.data());
    EXPECT_EQ(
        std::memcmp(call.outputs.at("y")->bytes.data() + 4 * range.first, expected.data(), expected.size()),
        0)
        << range.first;
  }
}

// The tensors of a giant call are gone when it is judged: a small one that was made before is repeated meanwhile.
TEST_F(RealGpuTest, ASmallCallIsRepeatedAfterAGiantOne) {
  Runner runner = runner_of_all_but("0");
  runner.set_goes_on(true);
  trial::Trial small = trial_of(100);
  small.condition.ordered = false;
  const auto inputs = *trial::make_inputs(*contract_, small);
  ASSERT_EQ(runner.run(small, inputs).outcome, CallOutcome::Ended);
  const Observation giant = run_giant(runner, 200'000);
  ASSERT_EQ(giant.outcome, CallOutcome::Ended) << giant.error;
  usleep(100'000);
  const Observation last = runner.run(small, inputs);
  ASSERT_EQ(last.outcome, CallOutcome::Ended) << last.error;
  EXPECT_GT(last.repeats, 0);
  EXPECT_FALSE(last.shaken);
}

TEST_F(RealGpuTest, AnOutputMayBeginWhereAPatternMayNot) {
  align_ = 4;  // what is written before the call is a pattern of eight bytes
  const Observation observation = copy_all_but("0", 200'001);
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.sample);
  EXPECT_TRUE(observation.sample->unwritten.empty());
}

TEST_F(RealGpuTest, SaysWhichPlaceWasNotWritten) {
  const Observation observation = copy_all_but("64", 200'000);
  ASSERT_TRUE(observation.sample);
  ASSERT_FALSE(observation.sample->unwritten.empty());
  EXPECT_EQ(observation.sample->unwritten[0].buffer, "y");
  EXPECT_EQ(observation.sample->unwritten[0].offset, 4 * (200'000 - 64));
}

}  // namespace
}  // namespace assay::subject
