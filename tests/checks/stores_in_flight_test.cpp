// Two blocks that run in two threads of the engine store to the same word. A store is announced to the checks before it is
// made, so the second may come when the first is known of and memory does not hold its value yet.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "checks/checks.h"
#include "vgpu/grid.h"
#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using vgpu::testing::Machine;

// Each block stores 7, plus its own number times `own`.
constexpr const char* kStore = R"(
.visible .entry k(.param .u64 x_, .param .u64 own_) {
  .reg .b32 %r<4>;
  .reg .b64 %x, %own;
  ld.param.u64 %x, [x_];
  ld.param.u64 %own, [own_];
  cvt.u32.u64 %r1, %own;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r1, %r2, 7;
  st.global.u32 [%x], %r3;
  ret;
})";

// Holds the store of whoever comes first back, so that the other one is announced meanwhile.
class HoldsFirstBack final : public vgpu::Listener {
 public:
  void on_access(const vgpu::Warp&, const vgpu::Inst&, const vgpu::Access&) override {
    using namespace std::chrono_literals;
    if (announced_.fetch_add(1) != 0) return;
    std::this_thread::sleep_for(5ms);
  }

 private:
  std::atomic<int> announced_ = 0;
};

bool finds_race(uint64_t own) {
  Machine m(kStore, {.threads = 2, .watch = true});
  FindingLog log;
  const auto check = make_race_check(log, m.device().memory(), RaceScope{});
  HoldsFirstBack back;
  m.device().listen(check.get());
  m.device().listen(&back);  // after the check
  const vgpu::Address x = m.array(std::vector<uint32_t>(1), "x");
  // More than the engine runs in one thread.
  EXPECT_EQ(m.launch("k", {128, 1, 1}, {1, 1, 1}, {x, own}).fault.message, "");
  const auto findings = log.take();
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.kind == Kind::DataRace; });
}

TEST(StoresInFlight, OfTheSameValueAreNoRace) {
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(finds_race(0)) << i;
}

TEST(StoresInFlight, OfDifferentValuesAre) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(finds_race(1)) << i;
}

}  // namespace
}  // namespace assay::checks
