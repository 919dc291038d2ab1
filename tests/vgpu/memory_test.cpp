#include "vgpu/memory.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

namespace assay::vgpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

Address must(Result<Address> r) {
  EXPECT_TRUE(r) << (r ? "" : r.error().text());
  return r ? *r : 0;
}

TEST(Memory, AllocationsAreApartAndAligned) {
  Memory memory(64 * kMiB, true);
  const Address a = must(memory.allocate(100, 1, MemoryKind::Device, "a"));
  const Address b = must(memory.allocate(100, 4096, MemoryKind::Device, "b"));
  EXPECT_EQ(a % 256, 0u);
  EXPECT_EQ(b % 4096, 0u);
  EXPECT_GE(b, a + 100 + 256) << "a red zone lies between";
  EXPECT_TRUE(memory.is_device_address(a));
  EXPECT_EQ(memory.find(a + 99)->label, "a");
  EXPECT_FALSE(memory.find(a + 100));
  EXPECT_FALSE(memory.find(a - 1));
  EXPECT_EQ(memory.nearest(a + 100)->label, "a");
  EXPECT_EQ(memory.nearest(a - 4)->label, "a");
  EXPECT_FALSE(memory.nearest(16));  // as good as null
  EXPECT_EQ(memory.locate(b + 5).low, b);
  EXPECT_EQ(memory.locate(b + 100).high, 0u);
}

TEST(Memory, BackingIsZeroAndBelongsToOneAllocation) {
  Memory memory(64 * kMiB, true);
  const Address a = must(memory.allocate(1000, 1, MemoryKind::Device, "a"));
  std::byte* host = memory.host(a, 1000);
  ASSERT_NE(host, nullptr);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(host[i], std::byte{0});
  EXPECT_EQ(memory.host(a, 1001), nullptr);
  EXPECT_EQ(memory.host(a + 1, 1000), nullptr);
  EXPECT_EQ(memory.host(a + 1000, 0), nullptr);
  EXPECT_EQ(memory.host(a + 4, 996), host + 4);
}

TEST(Memory, CapacityIsKept) {
  Memory memory(10 * kMiB, false);
  const Address a = must(memory.allocate(6 * kMiB, 256, MemoryKind::Device, "a"));
  EXPECT_FALSE(memory.allocate(6 * kMiB, 256, MemoryKind::Device, "b"));
  EXPECT_FALSE(memory.allocate(~uint64_t{0}, 256, MemoryKind::Device, "overflow"));
  EXPECT_FALSE(memory.allocate(~uint64_t{0} - 4096, 256, MemoryKind::Managed, "overflow"));
  EXPECT_EQ(memory.used(), 6 * kMiB);
  EXPECT_TRUE(memory.release(a));
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_TRUE(memory.allocate(6 * kMiB, 256, MemoryKind::Device, "b"));
  EXPECT_FALSE(memory.allocate(16, 3, MemoryKind::Device, "odd alignment"));
}

TEST(Memory, ReleasedAllocationsStayKnown) {
  Memory memory(64 * kMiB, true);
  const uint64_t before = memory.generation();
  const Address a = must(memory.allocate(5000, 256, MemoryKind::Device, "a"));
  std::memset(memory.host(a, 5000), 7, 5000);
  memory.mark_initialised(a, 5000);
  EXPECT_FALSE(memory.release(a + 4)) << "not a base";
  EXPECT_TRUE(memory.release(a));
  EXPECT_FALSE(memory.release(a)) << "twice";
  EXPECT_FALSE(memory.find(a));
  EXPECT_EQ(memory.host(a, 1), nullptr);
  ASSERT_TRUE(memory.nearest(a + 17));
  EXPECT_FALSE(memory.nearest(a + 17)->live);
  EXPECT_EQ(memory.nearest(a + 17)->label, "a");
  const Address b = must(memory.allocate(5000, 256, MemoryKind::Device, "b"));
  EXPECT_NE(a, b) << "addresses come back only when the range is used up";
  EXPECT_GT(memory.generation(), before + 2);
}

TEST(Memory, AddressesComeBackWhenTheRangeIsUsedUp) {
  Memory memory(~uint64_t{0} >> 1, true);
  const uint64_t third = uint64_t{3} << 40;  // of a range of 8 TiB at most
  const Address keep = must(memory.allocate(4096, 256, MemoryKind::Device, "keep"));
  Address last = 0;
  for (int round = 0; round < 12; ++round) {
    auto big = memory.allocate(third, 256, MemoryKind::Device, "big");
    if (!big && round == 0) GTEST_SKIP() << "this host reserves less";
    ASSERT_TRUE(big) << "round " << round;
    last = *big;
    std::byte* host = memory.host(last, third);
    ASSERT_NE(host, nullptr);
    EXPECT_EQ(host[123456], std::byte{0}) << "a reused range reads as zero";
    EXPECT_EQ(*memory.first_uninitialised(last, third), last);
    host[123456] = std::byte{9};
    memory.mark_initialised(last, 200000);
    ASSERT_TRUE(memory.release(last));
  }
  EXPECT_TRUE(memory.find(keep));
}

TEST(Memory, InitialisedBitsAreExact) {
  Memory memory(64 * kMiB, true);
  const Address a = must(memory.allocate(10000, 256, MemoryKind::Device, "a"));
  EXPECT_EQ(memory.first_uninitialised(a, 1), a);
  for (uint64_t first = 0; first < 40; ++first) {
    for (uint64_t count = 0; count < 40; ++count) {
      memory.mark_initialised(a, 100, false);
      memory.mark_initialised(a + first, count);
      for (uint64_t i = 0; i < 100; ++i) {
        const bool inside = i >= first && i < first + count;
        ASSERT_EQ(memory.first_uninitialised(a + i, 1).has_value(), !inside)
            << first << ' ' << count << ' ' << i;
      }
    }
  }
  memory.mark_initialised(a, 10000);
  EXPECT_FALSE(memory.first_uninitialised(a, 10000));
  memory.mark_initialised(a + 7777, 1, false);
  EXPECT_EQ(memory.first_uninitialised(a, 10000), a + 7777);
  EXPECT_FALSE(memory.first_uninitialised(a + 7778, 100000));
}

TEST(Memory, InitialisedBitsFollowACopy) {
  Memory memory(64 * kMiB, true);
  const Address a = must(memory.allocate(1000, 256, MemoryKind::Device, "a"));
  const Address b = must(memory.allocate(1000, 256, MemoryKind::Device, "b"));
  memory.mark_initialised(a, 1000);
  memory.mark_initialised(a + 13, 5, false);
  memory.copy_initialised(b + 3, a + 3, 500);
  EXPECT_EQ(memory.first_uninitialised(b + 3, 997), b + 13);
  EXPECT_EQ(memory.first_uninitialised(b + 18, 900), b + 503);
  memory.copy_initialised(a + 1, a, 100);  // overlapping
  EXPECT_EQ(memory.first_uninitialised(a, 1000), a + 14);
  EXPECT_FALSE(memory.first_uninitialised(a + 19, 900));
  int host = 0;
  memory.copy_initialised(b + 500, reinterpret_cast<Address>(&host), 500);
  EXPECT_FALSE(memory.first_uninitialised(b + 500, 500));
}

TEST(Memory, VariablesAndSharedMemoryCountAsInitialised) {
  Memory memory(64 * kMiB, true);
  const Address v = must(memory.allocate(777, 256, MemoryKind::Variable, "v"));
  EXPECT_FALSE(memory.first_uninitialised(v, 777));
  for (MemoryKind kind : {MemoryKind::Managed, MemoryKind::Pinned}) {
    const Address m = must(memory.allocate(777, 256, kind, "m"));
    EXPECT_FALSE(memory.first_uninitialised(m, 777));
    EXPECT_FALSE(memory.is_device_address(m));
    auto* host = reinterpret_cast<int*>(m);
    host[3] = 42;
    EXPECT_EQ(*reinterpret_cast<int*>(memory.host(m + 12, 4)), 42) << "host and device share it";
    EXPECT_TRUE(memory.release(m));
  }
  EXPECT_EQ(memory.used(), 777u);
}

TEST(Memory, HostMemoryCanBeAdopted) {
  Memory memory(64 * kMiB, true);
  std::vector<int> values(100, 5);
  const Address a = must(memory.adopt_host(values.data(), 400, "values"));
  EXPECT_EQ(a, reinterpret_cast<Address>(values.data()));
  EXPECT_EQ(*reinterpret_cast<int*>(memory.host(a + 8, 4)), 5);
  EXPECT_FALSE(memory.adopt_host(values.data() + 10, 40, "within"));
  EXPECT_FALSE(memory.adopt_host(values.data() - 10, 80, "across its start"));
  EXPECT_FALSE(memory.adopt_host(nullptr, 40, "nothing"));
  EXPECT_TRUE(memory.release(a));
  EXPECT_TRUE(memory.adopt_host(values.data() + 10, 40, "again"));
  EXPECT_EQ(values[0], 5) << "somebody else's memory is not given back";
}

TEST(Memory, HostDereferenceFaults) {
  Memory memory(64 * kMiB, true);
  const Address a = must(memory.allocate(64, 256, MemoryKind::Device, "a"));
  EXPECT_EXIT(*reinterpret_cast<volatile int*>(a) = 1, ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(Memory, ThreadsAllocateAtOnce) {
  Memory memory(1024 * kMiB, true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        auto a = memory.allocate(300, 256, MemoryKind::DeviceHeap, "heap");
        ASSERT_TRUE(a);
        ASSERT_TRUE(memory.find(*a + 299));
        memory.mark_initialised(*a, 300);
        if (i % 2 == 0) {
          EXPECT_TRUE(memory.release(*a));
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.live().size(), 1000u);
  EXPECT_EQ(memory.used(), 300u * 1000u);
}

// Sixteen terabytes would not fit anywhere: what is touched is made, and nothing else.
TEST(Memory, ContentIsMadeWhenItIsTouched) {
  Memory memory(uint64_t{1} << 42, true);
  const uint64_t count = uint64_t{1} << 33;
  const Address a = must(memory.allocate(4 * count + 64, 256, MemoryKind::Device, "a"));
  GeneratedValues values{.table = std::vector<std::byte>(4 * 1000), .item = 4, .seed = 3};
  for (uint32_t i = 0; i < 1000; ++i) std::memcpy(values.table.data() + 4 * i, &i, 4);
  ASSERT_TRUE(memory.make_on_touch(a, {.values = values, .offset = 64, .length = 4 * count}));
  EXPECT_EQ(memory.generated_bytes(), 0u);
  for (const uint64_t element : {uint64_t{0}, uint64_t{1} << 31, (uint64_t{1} << 32) + 5, count - 1}) {
    const LiveRange range = memory.locate(a + 64 + 4 * element, 4);
    ASSERT_LE(range.low, a + 64 + 4 * element);
    ASSERT_GE(range.high, a + 64 + 4 * element + 4);
    uint32_t made = 0, expected = 0;
    std::memcpy(&made, range.backing + (a + 64 + 4 * element - range.low), 4);
    make_values(values, element, 1, reinterpret_cast<std::byte*>(&expected));
    EXPECT_EQ(made, expected);
    EXPECT_LT(range.high - range.low, 1u << 20) << "only what is made may be reached";
  }
  EXPECT_LE(memory.generated_bytes(), 4u * 4096);
  EXPECT_FALSE(memory.first_uninitialised(a, 4 * count + 64));
}

// A few elements in each of many pages cost little; who goes on gets the rest of the page.
TEST(Memory, ScatteredContentIsMadeInSmallParts) {
  Memory memory(uint64_t{1} << 42, true);
  const Address a = must(memory.allocate(uint64_t{1} << 32, 4096, MemoryKind::Device, "a"));
  const GeneratedValues values{.table = std::vector<std::byte>(4, std::byte{7}), .item = 4};
  ASSERT_TRUE(memory.make_on_touch(a, {.values = values, .length = uint64_t{1} << 32}));
  constexpr uint64_t kPages = 100;
  for (uint64_t page = 0; page < kPages; ++page) memory.locate(a + page * 3 * 4096 + 1024, 4);
  EXPECT_LE(memory.generated_bytes(), kPages * 512);
  const uint64_t before = memory.generated_bytes();
  const LiveRange range = memory.locate(a + 1024 + 256, 4);
  EXPECT_EQ(memory.generated_bytes() - before, 4096u - 256);
  EXPECT_EQ(range.low, a);
  EXPECT_EQ(range.high, a + 4096);
  for (uint64_t at = 0; at < 4096; ++at) ASSERT_EQ(range.backing[at], std::byte{7}) << at;
}

TEST(Memory, WhatIsWrittenToMadeMemoryStays) {
  Memory memory(uint64_t{1} << 40, true);
  const Address a = must(memory.allocate(1 << 20, 256, MemoryKind::Device, "a"));
  ASSERT_TRUE(
      memory.make_on_touch(a, {.values = {.table = std::vector<std::byte>(8, std::byte{0x7f}), .item = 8},
                               .length = 1 << 20,
                               .defined = false}));
  std::memset(memory.host(a + 4090, 12), 1, 12);  // on both sides of a page's end
  EXPECT_EQ(*memory.host(a + 4089, 1), std::byte{0x7f});
  EXPECT_EQ(*memory.host(a + 4095, 1), std::byte{1});
  EXPECT_EQ(*memory.host(a + 4101, 1), std::byte{1});
  EXPECT_EQ(*memory.host(a + 4102, 1), std::byte{0x7f});
  EXPECT_EQ(memory.first_uninitialised(a, 4), a) << "what it holds counts as never written";
  EXPECT_FALSE(memory.make_on_touch(a + 8, {})) << "no allocation starts there";
  EXPECT_TRUE(memory.release(a));
  EXPECT_FALSE(memory.make_on_touch(a, {}));
}

}  // namespace
}  // namespace assay::vgpu
