// Races that show under some orders only.
#include <gmock/gmock.h>

#include "checks/checks.h"
#include "vgpu/machine.h"
#include "vgpu/rehearsal.h"

namespace assay::checks {
namespace {

using vgpu::Address;
using vgpu::testing::Machine;

// Two blocks take a lock and count. `fence`: what block 0 does once it has the lock.
std::string locked(const std::string& fence) {
  return R"(
.visible .entry count(.param .u64 p) {
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x;
again:
  atom.global.cas.b32 %r2, [%rd1], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;
  setp.ne.u32 %p2, %r1, 0; @%p2 bra other;
  )" + fence +
         R"(
  bra.uni inside;
other:
  fence.acq_rel.gpu;
inside:
  ld.global.u32 %r3, [%rd1+4]; add.u32 %r3, %r3, 1; st.global.u32 [%rd1+4], %r3;
  fence.acq_rel.gpu; atom.global.exch.b32 %r4, [%rd1], 0;
  ret;
})";
}

size_t races_under_schedules(const std::string& text, uint64_t count) {
  Machine machine(text, {.threads = 1, .watch = true});
  const Address p = machine.array(std::vector<uint32_t>(2), "p");
  std::vector<std::byte> parameters(8);
  std::memcpy(parameters.data(), &p, 8);
  FindingLog log;
  std::vector<std::unique_ptr<vgpu::Listener>> checks;
  const vgpu::ScheduleWatch watch{.begin =
                                      [&] {
                                        checks = make_checks(protocol::CheckSet{protocol::Check::Races}, log,
                                                             machine.device().memory());
                                        std::vector<vgpu::Listener*> listeners;
                                        for (const auto& check : checks) listeners.push_back(check.get());
                                        return listeners;
                                      },
                                  .end = [](uint64_t) {}};
  const vgpu::Kernel kernel = *machine.device().kernel(0, "count");
  vgpu::compare_schedules(machine.device(), kernel, {.grid = {2}, .block = {1}}, parameters, count, watch);
  return log.take().size();
}

// Who takes the lock first has nothing to see. Only if block 0 comes second does its missing fence matter.
TEST(RacesUnderSchedules, ShowAFenceThatOnlyTheSecondOwnerNeeds) {
  EXPECT_GT(races_under_schedules(locked(""), 7), 0u);
  EXPECT_EQ(races_under_schedules(locked("fence.acq_rel.gpu;"), 7), 0u);
}

TEST(RacesUnderSchedules, AreNotSeenInTextOrder) {
  Machine machine(locked(""), {.threads = 1, .watch = true});
  FindingLog log;
  const auto checks = make_checks(protocol::CheckSet{protocol::Check::Races}, log, machine.device().memory());
  for (const auto& check : checks) machine.device().listen(check.get());
  const Address p = machine.array(std::vector<uint32_t>(2), "p");
  machine.launch("count", {2}, {1}, {p});
  EXPECT_TRUE(log.take().empty()) << "which is why others are run";
}

}  // namespace
}  // namespace assay::checks
