// Random kernels against a slow and obviously right judge: all pairs of accesses. The race check may forget
// an older access, so it may miss a race; what it reports must be one. And its ways through the shadow
// (vectors, word by word) must agree.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "checks/checks.h"
#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using vgpu::Address;
using vgpu::testing::Machine;

constexpr uint32_t kBytes = 1024;

// Where a kernel's array lies, and who touches it.
struct Place {
  const char* name;
  bool shared;
  uint32_t blocks, threads;  // of a block
  bool cluster = false;      // the blocks are one, and each has such an array
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.name;
}

enum class What { Load, Store, Atomic, BlockBarrier, WarpBarrier, ClusterArrive, ClusterWait };

// Thread t of each block touches `bytes` bytes at (t * stride + offset) * bytes, within the array, if t %
// every == 0 and the block is meant.
struct Step {
  What what;
  uint32_t bytes = 4, stride = 1, offset = 0, every = 1, block = kAllBlocks;
  uint32_t over = 0;  // in a cluster: the array of the block that is so many further
  static constexpr uint32_t kAllBlocks = ~0u;
  bool means(uint32_t b) const { return block == kAllBlocks || block == b; }
  bool touches() const { return what <= What::Atomic; }
  uint32_t place(uint32_t t) const { return (t * stride + offset) * bytes % kBytes; }
};

using Plan = std::vector<Step>;

Plan random_plan(std::mt19937& random, const Place& place) {
  const uint32_t blocks = place.blocks;
  const auto pick = [&](auto... choices) {
    const uint32_t all[] = {static_cast<uint32_t>(choices)...};
    return all[random() % std::size(all)];
  };
  Plan plan;
  const uint32_t count = 2 + random() % 6;
  for (uint32_t i = 0; i < count; ++i) {
    Step step{static_cast<What>(pick(0, 0, 0, 1, 1, 2, 3, 3, 4))};
    step.bytes = step.what == What::Atomic ? 4 : pick(1, 2, 4, 4, 4, 8);
    step.stride = pick(0, 1, 1, 1, 2, 3, 16, 33);
    step.offset = pick(0, 0, 0, 1, 16, 32, 96);
    step.every = pick(1, 1, 1, 2, 32);
    // Where there are several blocks, most stores are one block's: the others would race at once.
    if (blocks > 1 && random() % 4 != 0 && step.what != What::Load) step.block = random() % blocks;
    if (place.cluster && !step.touches() && random() % 4 != 0) {
      plan.push_back({What::ClusterArrive});
      if (random() % 2 == 0) plan.push_back({What::Load, 4, 1, 0, 1, Step::kAllBlocks, pick(0, 1)});
      step.what = What::ClusterWait;
    }
    if (place.cluster && step.touches()) step.over = pick(0, 0, 1, 2);
    plan.push_back(step);
  }
  return plan;
}

std::string text_of(const Plan& plan, const Place& place) {
  const std::string space = place.cluster ? "shared::cluster" : place.shared ? "shared" : "global";
  const std::string arrive = "  barrier.cluster.arrive.aligned;\n",
                    wait = "  barrier.cluster.wait.aligned;\n";
  std::string body;
  for (size_t i = 0; i < plan.size(); ++i) {
    const Step& s = plan[i];
    const auto number = [](uint32_t n) { return std::to_string(n); };
    if (s.what == What::BlockBarrier) body += "  bar.sync 0;\n";
    if (s.what == What::WarpBarrier) body += "  bar.warp.sync 0xffffffff;\n";
    if (s.what == What::ClusterArrive) body += arrive;
    if (s.what == What::ClusterWait) body += wait;
    if (!s.touches()) continue;
    body += "  rem.u32 %r2, %r1, " + number(s.every) + "; setp.eq.u32 %p1, %r2, 0;\n";
    if (s.block != Step::kAllBlocks) body += "  setp.eq.and.u32 %p1, %r4, " + number(s.block) + ", %p1;\n";
    body += "  mad.lo.u32 %r2, %r1, " + number(s.stride) + ", " + number(s.offset) + ";\n";
    body += "  mul.lo.u32 %r2, %r2, " + number(s.bytes) + "; and.b32 %r2, %r2, " + number(kBytes - 1) + ";\n";
    body += "  cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd2, %rd1;\n";
    if (place.cluster) {
      body += "  add.u32 %r2, %r4, " + number(s.over) + "; rem.u32 %r2, %r2, " + number(place.blocks) + ";\n";
      body += "  mapa.shared::cluster.u64 %rd2, %rd2, %r2;\n";
    }
    // Values that differ from thread to thread and from step to step.
    const std::string value = s.bytes == 8 ? "%rd3" : s.bytes == 4 ? "%r3" : "%h1";
    body += "  mad.lo.u32 %r3, %r5, 7, " + number(static_cast<uint32_t>(i * 37 + 1)) + ";\n";
    body += "  cvt.u64.u32 %rd3, %r3; cvt.u16.u32 %h1, %r3;\n";
    const std::string type = "u" + number(s.bytes * 8);
    if (s.what == What::Load) body += "  @%p1 ld." + space + "." + type + " " + value + ", [%rd2];\n";
    if (s.what == What::Store) body += "  @%p1 st." + space + "." + type + " [%rd2], " + value + ";\n";
    if (s.what == What::Atomic) body += "  @%p1 red." + space + ".add.u32 [%rd2], %r3;\n";
  }
  std::string cluster;
  if (place.cluster) {  // all have begun, and none ends before the others
    cluster = " .explicitcluster .reqnctapercluster " + std::to_string(place.blocks) + ", 1, 1";
    body = arrive + wait + body + arrive + wait;
  }
  return ".visible .entry k(.param .u64 x)" + cluster + " {\n  .shared .align 16 .b8 s[" +
         std::to_string(kBytes) +
         "];\n  .reg .pred %p<2>; .reg .b16 %h<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;\n" +
         (place.shared ? "  mov.u64 %rd1, s;\n" : "  ld.param.u64 %rd1, [x];\n") +
         "  mov.u32 %r1, %tid.x;\n  mov.u32 %r4, %ctaid.x;\n  mad.lo.u32 %r5, %r4, " +
         std::to_string(place.threads) + ", %r1;\n" + body + "  ret;\n}\n";
}

// Every pair of accesses that nothing orders.
bool has_race(const Plan& plan, const Place& place) {
  uint32_t phase = 0, round = 0;
  uint32_t arrived = 0, waited = 0;  // at cluster barriers
  struct Seen {
    What what;
    uint32_t block, thread, low, high, phase, round, arrived, waited;
  };
  std::vector<Seen> seen;
  for (const Step& s : plan) {
    phase += s.what == What::BlockBarrier;
    round += s.what == What::WarpBarrier || s.what == What::BlockBarrier;
    arrived += s.what == What::ClusterArrive;
    waited += s.what == What::ClusterWait;
    for (uint32_t b = 0; b < place.blocks && s.touches(); ++b)
      for (uint32_t t = 0; t < place.threads && s.means(b); ++t) {
        const uint32_t low = (place.cluster ? (b + s.over) % place.blocks * kBytes : 0) + s.place(t);
        if (t % s.every == 0)
          seen.push_back({s.what, b, t, low, low + s.bytes, phase, round, arrived, waited});
      }
  }
  for (size_t i = 0; i < seen.size(); ++i)
    for (size_t k = i + 1; k < seen.size(); ++k) {
      const Seen &a = seen[i], &b = seen[k];
      if ((a.block == b.block && a.thread == b.thread) || a.low >= b.high || b.low >= a.high) continue;
      if ((a.what == What::Load && b.what == What::Load) ||
          (a.what == What::Atomic && b.what == What::Atomic))
        continue;
      if (a.arrived < b.waited) continue;
      if (a.block != b.block) return true;
      const bool same_warp = a.thread / 32 == b.thread / 32;
      if (a.phase == b.phase && !(same_warp && a.round < b.round)) return true;
    }
  return false;
}

bool finds_race(const std::string& text, const Place& place, bool vectors) {
  Machine m(text, {.watch = true});
  FindingLog log;
  RaceScope scope;
  scope.vectors = vectors;
  auto check = make_race_check(log, m.device().memory(), scope);
  m.device().listen(check.get());
  const Address x = m.array(std::vector<uint8_t>(kBytes), "x");
  EXPECT_EQ(m.launch("k", {place.blocks, 1, 1}, {place.threads, 1, 1}, {x}).fault.message, "");
  for (const Finding& finding : log.take())
    if (finding.kind == Kind::DataRace) return true;
  return false;
}

class RandomRaces : public ::testing::TestWithParam<Place> {};

TEST_P(RandomRaces, AreReportedIfAndOnlyIfThereIsOne) {
  const Place place = GetParam();
  const char* seed = std::getenv("ASSAY_SEED");
  std::mt19937 random(seed ? static_cast<uint32_t>(std::atoi(seed)) : 12);
  uint32_t racy = 0, missed = 0;
  for (int round = 0; round < 400; ++round) {
    const Plan plan = random_plan(random, place);
    const std::string text = text_of(plan, place);
    const bool expected = has_race(plan, place);
    for (bool vectors : {true, false}) {
      const bool found = finds_race(text, place, vectors);
      ASSERT_TRUE(expected || !found) << "a false alarm, vectors " << vectors << "\n" << text;
      racy += expected;
      missed += expected && !found;
      if (expected && !found && vectors) RecordProperty("missed", text);
    }
  }
  EXPECT_GT(racy, 300u);
  EXPECT_LE(missed, racy / 50) << "of " << racy;
  RecordProperty("races", std::to_string(racy) + ", missed " + std::to_string(missed));
}

constexpr Place kPlaces[] = {{"Shared", true, 1, 96},
                             {"Global", false, 1, 96},
                             {"Blocks", false, 3, 64},
                             {"Cluster", true, 3, 64, true}};

INSTANTIATE_TEST_SUITE_P(Memory, RandomRaces, ::testing::ValuesIn(kPlaces),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace assay::checks
