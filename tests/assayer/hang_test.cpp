// Whether a call that did not end in time ever does.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "assayer/trial_runner.h"
#include "folders.h"
#include "subject/subject.h"

namespace assay::assayer {
namespace {

namespace fs = std::filesystem;

// y[i] = x[i] by one warp, which counts to n; beyond 100 it never gets there.
constexpr const char* kCount = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .f32 %f;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
NEXT:
  setp.ge.u32 %p, %r2, %r1;
  @%p bra DONE;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f, [%rd4];
  st.global.f32 [%rd5], %f;
  add.u32 %r2, %r2, 32;
  and.b32 %r2, %r2, MASK;
  bra NEXT;
DONE:
  ret;
}
)";

// One thread that waits until somebody writes a 1.
constexpr const char* kWait = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [x];
NEXT:
  atom.global.or.b32 %r1, [%rd1], 0;
  setp.ne.u32 %p, %r1, 1;
  @%p bra NEXT;
  ret;
}
)";

constexpr const char* kContract = R"toml([kernel]
source = "k.ptx"
global = "k"
grid = ["1"]
block = [32]
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
)toml";

class HangTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "assay-hang-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  // `mask`: of the counter. Whether the call with n = 1000 never ends, as far as can be told in so many seconds.
  bool never_ends(const std::string& mask, std::optional<double> seconds) {
    std::string ptx = kCount;
    ptx.replace(ptx.find("MASK"), 4, mask);
    return with_trials(ptx, [&](TrialRunner& trials) {
      trials.set_time_left(seconds);
      return trials.never_ends(trial_, result_);
    });
  }

  template <class Ask>
  bool with_trials(const std::string& ptx, Ask ask) {
    std::ofstream(folder_ / "k.ptx") << ptx;
    auto contract = contract::parse(kContract, (folder_ / "k.toml").string());
    EXPECT_TRUE(contract) << contract.error().text();
    const auto reference = reference::Reference::make(*contract);
    EXPECT_TRUE(reference) << reference.error().text();
    const subject::BuildOutcome built = subject::build(*contract, {});
    EXPECT_TRUE(built.subject);
    CheckOptions options;
    options.runner.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.runner.cudart = std::string(kBinaryFolder) + "/lib";
    TrialRunner trials(*contract, *reference, *built.subject, options);
    trial_.shape = {{"n", 1000}};
    return ask(trials);
  }

  fs::path folder_;
  trial::Trial trial_;
  TrialResult result_;
};

TEST_F(HangTest, ACallThatDoesNotEndIsMadeSmall) {
  EXPECT_TRUE(never_ends("0x7f", std::nullopt));
  ASSERT_FALSE(result_.findings.empty());
  EXPECT_EQ(result_.findings[0].kind, Kind::Timeout);
  EXPECT_EQ(trial_.shape.at("n"), 128);
  EXPECT_FALSE(result_.unexplained);
}

TEST_F(HangTest, ACallThatEndsIsSaidToEnd) {
  EXPECT_FALSE(never_ends("0x7fffffff", std::nullopt));
  EXPECT_FALSE(result_.unexplained);
}

// A busy machine: nothing is known, which must not count as an end.
TEST_F(HangTest, WithoutTimeNothingIsDecided) {
  EXPECT_FALSE(never_ends("0x7f", 0.001));
  EXPECT_TRUE(result_.unexplained);
}

// A deadlock that a call of several seconds showed shows again, though the trial's own calls have less.
TEST_F(HangTest, AWaitThatWasSeenIsGivenTheTimeToShowAgain) {
  trial_.shape = {{"n", 4}};
  Finding seen;
  seen.kind = Kind::Deadlock;
  result_.findings = {seen};
  result_.seconds = 10;
  EXPECT_TRUE(with_trials(kWait, [&](TrialRunner& trials) {
    trials.set_timeout(0.5);
    return trials.confirm(trial_, result_);
  }));
}

}  // namespace
}  // namespace assay::assayer
