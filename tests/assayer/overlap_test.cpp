// Two calls at once that are right in one order and wrong in another.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "assayer/assayer.h"
#include "contract/contract.h"
#include "folders.h"

namespace assay::assayer {
namespace {

namespace fs = std::filesystem;

// y[i] = x[i]; the last element is the last block's to write, which a counter tells. Two calls share the counter.
constexpr const char* kTicket = R"(.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 tickets;
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<9>;
  .reg .f32 %f;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  sub.u32 %r6, %r1, 1;
  setp.ge.u32 %p, %r5, %r6;
  @%p bra DRAW;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f, [%rd4];
  st.global.f32 [%rd5], %f;
DRAW:
  setp.ne.u32 %p, %r4, 0;
  @%p bra DONE;
  mov.u32 %r7, %nctaid.x;
  sub.u32 %r7, %r7, 1;
  mov.u64 %rd6, tickets;
  atom.global.inc.u32 %r8, [%rd6], %r7;
  setp.ne.u32 %p, %r8, %r7;
  @%p bra DONE;
  mul.wide.u32 %rd3, %r6, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f, [%rd4];
  st.global.f32 [%rd5], %f;
DONE:
  ret;
}
)";

// y[0] += x[i] by atomics, from all blocks: right, in other bits each time.
constexpr const char* kAtomics = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .f32 %f;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f, [%rd4];
  red.global.add.f32 [%rd2], %f;
DONE:
  ret;
}
)";

class OverlapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "assay-overlap-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  contract::Contract contract_of(const char* ptx, const char* output, const char* formula) const {
    std::ofstream(folder_ / "k.ptx") << ptx;
    const std::string text = std::string(R"toml([kernel]
source = "k.ptx"
global = "k"
grid = ["ceil_div(n, 32)"]
block = [32]
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
)toml") + output + "[require]\ndeterministic = true\n[reference]\nformula = \"" +
                             formula + "\"\n";
    auto contract = contract::parse(text, (folder_ / "k.toml").string());
    EXPECT_TRUE(contract) << contract.error().text();
    return std::move(*contract);
  }

  // What a trial of two calls at once shows under this schedule; none: nothing.
  static std::optional<Kind> shown(const contract::Contract& contract, uint64_t schedule, bool repeated) {
    CheckOptions options;
    options.budget = 20;
    options.runner.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.runner.cudart = std::string(kBinaryFolder) + "/lib";
    trial::Trial trial;
    trial.shape = {{"n", 200}};
    trial.condition = {.schedule = schedule, .ordered = false, .repeated = repeated, .overlapped = true};
    const CheckOutcome outcome = investigate(contract, std::span(&trial, 1), {}, options);
    EXPECT_TRUE(outcome.problem.empty()) << outcome.problem;
    for (const Finding& finding : outcome.report.findings)
      if (finding.severity == Severity::Error) return finding.kind;
    return std::nullopt;
  }

  // Of schedules under which the calls are right, and differ when they are repeated under another one.
  static std::optional<Kind> shown_by_repetition(const contract::Contract& contract) {
    for (uint64_t schedule = 1; schedule <= 60; ++schedule) {
      if (shown(contract, schedule, false)) continue;
      if (const auto kind = shown(contract, schedule, true)) return kind;
    }
    return std::nullopt;
  }

  fs::path folder_;
};

TEST_F(OverlapTest, CallsThatAreRightInOneOrderOnlyDisturbEachOther) {
  const auto contract = contract_of(kTicket, "shape = [\"n\"]\nrole = \"out\"\n", "y[i] = x[i]");
  EXPECT_EQ(shown_by_repetition(contract), Kind::ConcurrentLaunch);
}

TEST_F(OverlapTest, BitsThatDifferForOneCallAsWellDoNotComeOfTheOther) {
  const auto contract = contract_of(kAtomics, "shape = []\nrole = \"inout\"\n", "y = y + sum[i](x[i])");
  EXPECT_EQ(shown_by_repetition(contract), Kind::Nondeterministic);
}

}  // namespace
}  // namespace assay::assayer
