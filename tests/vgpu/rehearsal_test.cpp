// One launch under several schedules: what depends on the order is found, what does not is left alone.
#include "vgpu/rehearsal.h"

#include "machine.h"

namespace assay::vgpu {
namespace {

using testing::Machine;

constexpr uint64_t kRehearsed = 7;  // one of each kind

// Each warp's first lane adds to a counter and leaves what it got, or what `then` makes of it.
std::string counter(const std::string& then) {
  return R"(
.visible .entry count(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<5>; .reg .pred %p<2>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
)" + then +
         R"(
DONE:
  ret;
})";
}

std::vector<ScheduleDifference> compared(Machine& m, Address a) {
  std::vector<std::byte> parameters(8);
  std::memcpy(parameters.data(), &a, 8);
  Result<Kernel> kernel = m.device().kernel(0, "count");
  EXPECT_TRUE(kernel);
  return compare_schedules(m.device(), *kernel, {.grid = {1}, .block = {128}}, parameters, kRehearsed);
}

TEST(Rehearsal, FindsWhatDependsOnTheOrderAndWhoWroteIt) {
  Machine m(counter("atom.global.add.u32 %r3, [%rd1], 1;\n  st.global.u32 [%rd3+4], %r3;"),
            {.threads = 1, .watch = true});
  const std::vector<uint32_t> before(129, 5);
  const Address a = m.array(before, "out");
  const auto found = compared(m, a);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].allocation.label, "out");
  EXPECT_EQ(found[0].schedules[0], 0u);
  EXPECT_GE(found[0].words, 2u);
  EXPECT_NE(found[0].values[0], found[0].values[1]);
  EXPECT_EQ(found[0].writers.size(), 1u);
  // Afterwards all is as it was.
  EXPECT_EQ(m.read<uint32_t>(a, 129), before);
  EXPECT_EQ(m.device().options().seed, 0u);
}

TEST(Rehearsal, LeavesAloneWhatIsTheSameInEveryOrder) {
  Machine m(counter("red.global.add.u32 [%rd1], 1;\n  st.global.u32 [%rd3+4], %r1;"), {.threads = 1});
  EXPECT_TRUE(compared(m, m.array(std::vector<uint32_t>(129))).empty());
}

TEST(Rehearsal, LeavesAloneSumsOfFloats) {
  Machine m(
      counter("cvt.rn.f32.u32 %f1, %r1;\n  rcp.rn.f32 %f1, %f1;\n  atom.global.add.f32 %f2, [%rd1], %f1;\n"
              "  st.global.f32 [%rd3+4], %f2;"),
      {.threads = 1});
  EXPECT_TRUE(compared(m, m.array(std::vector<float>(129, 0.1f))).empty());
}

// Who wants to hear of the runs under other schedules hears of these, and of nothing else.
TEST(Rehearsal, LetsOthersListenToTheOtherSchedules) {
  struct Stores : Listener {
    uint64_t count = 0;
    void on_access(const Warp&, const Inst&, const Access& access) override {
      count += access.kind == AccessKind::Store;
    }
  };
  Machine m(counter("st.global.u32 [%rd3+4], %r1;"), {.threads = 1, .watch = true});
  std::vector<std::byte> parameters(8);
  const Address a = m.array(std::vector<uint32_t>(129), "out");
  std::memcpy(parameters.data(), &a, 8);
  Stores stores;
  std::vector<uint64_t> schedules;
  const ScheduleWatch watch{.begin = [&] { return std::vector<Listener*>{&stores}; },
                            .end = [&](uint64_t schedule) { schedules.push_back(schedule); }};
  const Kernel kernel = *m.device().kernel(0, "count");
  EXPECT_TRUE(
      compare_schedules(m.device(), kernel, {.grid = {1}, .block = {128}}, parameters, 8, watch).empty());
  EXPECT_EQ(schedules, (std::vector<uint64_t>{3, 4, 5, 7, 6, 1, 2, 15}));
  EXPECT_GE(stores.count, 4 * schedules.size());
  const uint64_t before = stores.count;
  m.launch("count", {1}, {128}, {a});
  EXPECT_EQ(stores.count, before) << "afterwards nobody is told";
}

}  // namespace
}  // namespace assay::vgpu
