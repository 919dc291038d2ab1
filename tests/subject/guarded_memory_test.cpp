// Where a tensor lies between unmapped pages, and what is asked of the driver for that; with a driver that only counts.
#include "subject/worker/guarded_memory.h"

#include <gmock/gmock.h>

#include <map>

namespace assay::worker {
namespace {

constexpr int64_t kPage = 2 << 20;

TEST(Placement, ends_a_tensor_at_the_end_of_what_is_mapped) {
  for (const int64_t offset : {256, 272, 1024})
    for (const int64_t length : {1, 4, 256, 1000, 2 << 20, (2 << 20) + 4}) {
      const Extent extent{offset + length + 512, offset, length};
      const int64_t mapped = mapped_bytes(extent, Side::End, kPage);
      const Placement at = place(extent, Side::End, mapped);
      const int64_t gap = mapped - (at.base + offset + length);
      EXPECT_GE(gap, 0);
      EXPECT_LT(gap, kAlignment);
      EXPECT_EQ((at.base + offset) % kAlignment, offset % kAlignment) << "its alignment is the trial's";
      EXPECT_EQ(at.from, 0) << "what lies before it exists";
      EXPECT_EQ(at.to, offset + length + gap) << "and nothing behind it but the gap";
    }
}

TEST(Placement, begins_a_tensor_at_the_begin_of_what_is_mapped) {
  const Extent extent{5000, 272, 1000};
  const Placement at = place(extent, Side::Begin, mapped_bytes(extent, Side::Begin, kPage));
  EXPECT_EQ(at.base + extent.offset, 16);
  EXPECT_EQ(at.from, 256);
  EXPECT_EQ(at.to, 5000);
}

// What the driver holds.
struct Counts {
  std::map<uint64_t, size_t> reserved, mapped, created;
  uint64_t next = 1 << 30;
  size_t room = 64 << 20;  // bytes of memory
};
Counts counts;

VirtualMemory counting_driver() {
  counts = {};
  VirtualMemory driver;
  driver.cuCtxGetDevice = [](int* id) { return *id = 3, 0; };
  driver.cuMemGetAllocationGranularity = [](size_t* size, const VirtualMemory::Properties* p, int) {
    *size = kPage;
    return p->location.id == 3 ? 0 : 1;
  };
  driver.cuMemAddressReserve = [](uint64_t* at, size_t size, size_t, uint64_t, uint64_t) {
    *at = counts.next;
    counts.next += 2 * size;
    counts.reserved[*at] = size;
    return 0;
  };
  driver.cuMemAddressFree = [](uint64_t at, size_t size) {
    return counts.reserved[at] == size && counts.reserved.erase(at) ? 0 : 1;
  };
  driver.cuMemCreate = [](uint64_t* handle, size_t size, const VirtualMemory::Properties*, uint64_t) {
    size_t used = 0;
    for (const auto& [_, bytes] : counts.created) used += bytes;
    if (used + size > counts.room) return 2;
    *handle = ++counts.next;
    counts.created[*handle] = size;
    return 0;
  };
  driver.cuMemRelease = [](uint64_t handle) { return counts.created.erase(handle) ? 0 : 1; };
  driver.cuMemMap = [](uint64_t at, size_t size, size_t, uint64_t, uint64_t) {
    counts.mapped[at] = size;
    return 0;
  };
  driver.cuMemUnmap = [](uint64_t at, size_t) { return counts.mapped.erase(at) ? 0 : 1; };
  driver.cuMemSetAccess = [](uint64_t at, size_t size, const VirtualMemory::Access* access, size_t) {
    return counts.mapped[at] == size && access->flags == 3 ? 0 : 1;
  };
  return driver;
}

uint64_t number(const std::byte* at) {
  return reinterpret_cast<uint64_t>(at);
}

TEST(GuardedMemoryTest, keeps_a_page_unmapped_on_either_side) {
  GuardedMemory memory(counting_driver());
  const auto held = memory.allocate({1280, 256, 768}, Side::End);
  ASSERT_TRUE(held);
  const auto [reserved, reserved_size] = *counts.reserved.begin();
  const auto [mapped, mapped_size] = *counts.mapped.begin();
  EXPECT_EQ(mapped, reserved + kPage);
  EXPECT_EQ(mapped + mapped_size + kPage, reserved + reserved_size);
  EXPECT_EQ(number(held->base) + 256 + 768, mapped + mapped_size);
}

TEST(GuardedMemoryTest, uses_memory_again_and_gives_all_of_it_back) {
  {
    GuardedMemory memory(counting_driver());
    for (int i = 0; i < 100; ++i) {
      const auto held = memory.allocate({1024 + i, 256, 256 + i}, i % 2 ? Side::Begin : Side::End);
      ASSERT_TRUE(held);
      memory.release(*held);
    }
    EXPECT_EQ(counts.created.size(), 1u);
    const auto first = memory.allocate({1024, 256, 256}, Side::End),
               second = memory.allocate({1024, 256, 256}, Side::End);
    EXPECT_NE(first->base, second->base);
  }
  EXPECT_TRUE(counts.reserved.empty() && counts.mapped.empty() && counts.created.empty());
}

TEST(GuardedMemoryTest, frees_what_is_unused_before_it_gives_up) {
  GuardedMemory memory(counting_driver());
  const auto large = memory.allocate({40 << 20, 256, 30 << 20}, Side::End);
  ASSERT_TRUE(large);
  EXPECT_FALSE(memory.allocate({60 << 20, 256, 50 << 20}, Side::End)) << "64 MiB are not enough for both";
  memory.release(*large);
  EXPECT_TRUE(memory.allocate({60 << 20, 256, 50 << 20}, Side::End));
}

TEST(GuardedMemoryTest, is_plain_memory_without_the_drivers_functions) {
  GuardedMemory memory({});
  EXPECT_FALSE(memory.allocate({1280, 256, 768}, Side::End));
}

}  // namespace
}  // namespace assay::worker
