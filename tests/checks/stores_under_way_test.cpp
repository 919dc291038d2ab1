// Blocks on several threads of the host: a store that is known and not in memory yet.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "checks/checks.h"
#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using vgpu::Address;
using vgpu::testing::Machine;

constexpr const char* kStores = R"(
.visible .entry equal(.param .u64 x) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; st.global.u32 [%rd1], 7; ret;
}
.visible .entry unlike(.param .u64 x) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x; st.global.u32 [%rd1], %r1; ret;
}
)";

// Comes after the checks and before the store.
class Slow final : public vgpu::Listener {
 public:
  bool wants_accesses(ptx::Space space) const override { return space == ptx::Space::Global; }
  void on_access(const vgpu::Warp&, const vgpu::Inst&, const vgpu::Access&) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
};

std::vector<Finding> found_in(const char* kernel) {
  Machine machine(kStores, {.threads = 2, .watch = true});
  FindingLog log;
  auto checks = make_checks(protocol::CheckSet::for_run(), log, machine.device().memory());
  for (auto& check : checks) machine.device().listen(check.get());
  Slow slow;
  machine.device().listen(&slow);
  const Address x = *machine.device().memory().allocate(4, 256, vgpu::MemoryKind::Device, "x");
  machine.launch(kernel, {16}, {256}, {x});
  return log.take();
}

TEST(StoresUnderWay, OfOneValueAreNoRace) {
  EXPECT_TRUE(found_in("equal").empty());
}

TEST(StoresUnderWay, OfOtherValuesAreOne) {
  const std::vector<Finding> findings = found_in("unlike");
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, Kind::DataRace);
}

}  // namespace
}  // namespace assay::checks
