// Where a pool with the rules of PyTorch's allocator would place a program's allocations.
#include "activity/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::activity {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

// A program that allocates and frees; every call takes a second.
class Program {
 public:
  Program& take(uint64_t id, uint64_t bytes, const char* label = "cudaMallocAsync") {
    recorder_.add(protocol::AllocationEvent{id, id << 40, bytes, label, false, 0, ++now_});
    return *this;
  }
  Program& give_back(uint64_t id) {
    recorder_.add(protocol::ReleaseEvent{.id = id, .seconds = now_ + 1, .called = now_ + 1});
    ++now_;
    return *this;
  }
  Recorder& recorder() { return recorder_; }
  Pool pool() { return pool_of(recorder_.take()); }

 private:
  Recorder recorder_;
  double now_ = 0;
};

// "2097152: 1048576 0, gap 512": each block's bytes and the position of its allocation.
std::vector<std::string> segments(const Pool& pool) {
  std::vector<std::string> all;
  for (const PoolSegment& segment : pool.segments) {
    std::string text = std::to_string(segment.bytes / kKiB) + ":";
    for (const PoolBlock& block : segment.blocks)
      text += " " + std::to_string(block.bytes / kKiB) +
              (block.allocation ? "=" + std::to_string(*block.allocation) : "-");
    all.push_back(text);
  }
  return all;
}

TEST(Pool, SegmentsAreAsLargeAsPyTorchsAllocatorMakesThem) {
  const Pool pool = Program()
                        .take(1, 1)                // small: 512 bytes of 2 MiB
                        .take(2, kMiB)             // small, the largest: beside it
                        .take(3, kMiB + 1)         // large: of 20 MiB
                        .take(4, 10 * kMiB - 512)  // beside it
                        .take(5, 10 * kMiB)        // a segment of its own
                        .take(6, 11 * kMiB)        // rounded up to 2 MiB
                        .pool();
  EXPECT_EQ(pool.reserved, (2 + 20 + 10 + 12) * kMiB);
  EXPECT_EQ(pool.allocations, 6u);
  ASSERT_EQ(pool.segments.size(), 4u);
  EXPECT_EQ(pool.segments[0].blocks[0].bytes, 512u);
  EXPECT_EQ(pool.segments[1].blocks[0].bytes, kMiB + 512);
  // At most 1 MiB is left: the block is not split.
  EXPECT_EQ(segments(pool)[3], "12288: 12288=5");
  EXPECT_EQ(pool.seconds, 6);
  EXPECT_EQ(pool.in_use + pool.rounding + pool.gaps, pool.reserved);
  EXPECT_EQ(pool.in_use, 1 + kMiB + kMiB + 1 + 10 * kMiB - 512 + 10 * kMiB + 11 * kMiB);
  EXPECT_EQ(pool.gaps, (kMiB - 512) + (20 * kMiB - (kMiB + 512) - (10 * kMiB - 512)));
}

TEST(Pool, FreedNeighboursAreOneGap) {
  Program program;
  program.take(1, 4 * kMiB).take(2, 4 * kMiB).take(3, 4 * kMiB).take(4, 4 * kMiB).take(5, 4 * kMiB);
  // The third and the second, before which the first is still there; then the gap of both is large enough.
  program.give_back(3).give_back(2).take(6, 8 * kMiB);
  EXPECT_THAT(segments(program.pool()), ElementsAre("20480: 4096=0 4096=1 4096=2 4096=3 4096=4"))
      << "as it was when it was fullest";
  Program more;
  more.take(1, 4 * kMiB).take(2, 4 * kMiB).take(3, 4 * kMiB).take(4, 4 * kMiB).take(5, 4 * kMiB);
  more.give_back(3).give_back(2).take(6, 8 * kMiB).take(7, 2 * kMiB);
  EXPECT_THAT(segments(more.pool()),
              ElementsAre("20480: 4096=0 8192=5 4096=3 4096=4", "20480: 2048=6 18432-"));
}

// Two gaps of 4 MiB with an allocation between them hold no 6 MiB: that is what fragmentation costs.
TEST(Pool, GapsThatAreApartAreOfNoUse) {
  Program program;
  program.take(1, 4 * kMiB).take(2, 4 * kMiB).take(3, 4 * kMiB).take(4, 4 * kMiB).take(5, 4 * kMiB);
  program.give_back(1).give_back(3).take(6, 6 * kMiB);
  const Pool pool = program.pool();
  EXPECT_EQ(pool.reserved, 40 * kMiB);
  EXPECT_EQ(pool.most_in_use, 20 * kMiB);
  EXPECT_EQ(pool.in_use, 18 * kMiB);
  EXPECT_EQ(pool.gaps, (4 + 4 + 14) * kMiB);
  EXPECT_EQ(pool.rounding, 0u);
  EXPECT_THAT(segments(pool), ElementsAre("20480: 4096- 4096=1 4096- 4096=3 4096=4", "20480: 6144=5 14336-"));
}

TEST(Pool, TheSmallestGapThatIsLargeEnoughIsTaken) {
  Program program;
  program.take(1, 6 * kMiB)
      .take(2, 2 * kMiB)
      .take(3, 4 * kMiB)
      .take(4, 2 * kMiB)
      .take(5, 4 * kMiB)
      .take(6, 2 * kMiB);
  program.give_back(1).give_back(3).give_back(5);
  program.take(7, 3 * kMiB).take(8, 12 * kMiB);
  // The first of the two that are equal; what is left of it, 1 MiB, is not split off.
  EXPECT_EQ(segments(program.pool())[0], "20480: 6144- 2048=1 4096=6 2048=3 4096- 2048=5");
}

// A loop that allocates, computes and frees in stream order uses the same memory again, however late the device is.
TEST(Pool, TheOrderIsThatOfTheCalls) {
  Recorder recorder;
  for (uint64_t i = 1; i <= 3; ++i) {
    const auto now = static_cast<double>(i);
    recorder.add(protocol::AllocationEvent{i, i << 40, 12 * kMiB, "cudaMallocAsync", false, 0, now});
    recorder.add(protocol::ReleaseEvent{.id = i, .seconds = 10 + now, .called = now + .5});
  }
  // Its release was asked for, and the program ended before.
  recorder.add(protocol::AllocationEvent{4, uint64_t{4} << 40, 12 * kMiB, "cudaMallocAsync", false, 0, 4});
  recorder.add(protocol::ReleaseEvent{.id = 4, .seconds = 20, .called = 4.5, .is_held = true});
  recorder.add(protocol::AllocationEvent{5, uint64_t{5} << 40, 12 * kMiB, "cudaMallocAsync", false, 0, 5});
  recorder.add(protocol::ReleaseEvent{.id = 5, .seconds = 20, .called = 20, .is_held = true});
  const Pool pool = pool_of(recorder.take());
  EXPECT_EQ(pool.reserved, 12 * kMiB);
  EXPECT_EQ(pool.most_in_use, 12 * kMiB);
}

TEST(Pool, OnlyWhatIsMadeFromAPoolCounts) {
  Program program;
  program.take(1, kMiB, "cudaMalloc");
  program.recorder().add(protocol::StackEvent{1, {"program+0x1"}, {}});
  program.recorder().add(protocol::AllocationEvent{2, 1, kMiB, "cudaMalloc", false, 1, 2});
  EXPECT_EQ(program.recorder().take().allocations.size(), 2u);
  Program none;
  none.take(1, kMiB, "cudaMalloc");
  EXPECT_EQ(none.pool().allocations, 0u);
  EXPECT_EQ(none.pool().reserved, 0u);
  // PyTorch's tensors are allocations of their own on the virtual GPU.
  Program python;
  python.recorder().add(protocol::StackEvent{1, {}, {{{"train.py", 3}, "step", true}}});
  python.recorder().add(protocol::AllocationEvent{1, 1, kMiB, "cudaMalloc", false, 1, 1});
  python.recorder().add(protocol::AllocationEvent{2, 2, kMiB, "cudaMallocHost", true, 1, 1});  // of the host
  EXPECT_EQ(python.pool().allocations, 1u);
}

}  // namespace
}  // namespace assay::activity
