// A barrier of the whole block has a short way; it must leave the same clocks as the long one.
#include "checks/race_clock.h"

#include <gtest/gtest.h>

#include "vgpu/grid.h"

namespace assay::checks {
namespace {

constexpr uint32_t kWarps = 5;

vgpu::Block live_block() {
  vgpu::Block block;
  block.warps.resize(kWarps);
  for (vgpu::Warp& warp : block.warps) warp.live = vgpu::kAllLanes;
  return block;
}

void expect_equal(const BlockClock& a, const BlockClock& b) {
  for (uint32_t w = 0; w < kWarps; ++w) {
    EXPECT_EQ(a.warps[w].tick, b.warps[w].tick) << w;
    EXPECT_EQ(a.warps[w].all_lanes, b.warps[w].all_lanes) << w;
    EXPECT_EQ(a.warps[w].known, b.warps[w].known) << w;
    EXPECT_EQ(a.warps[w].lanes != nullptr, b.warps[w].lanes != nullptr) << w;
  }
}

TEST(BlockClock, ABarrierOfAllTeachesTheSameOnBothWays) {
  const vgpu::Block block = live_block();
  const std::vector<uint32_t> everybody(kWarps, vgpu::kAllLanes);
  BlockClock slow(7, kWarps), quick(7, kWarps);
  for (uint32_t round = 0; round < 4; ++round) {
    for (BlockClock* clock : {&slow, &quick}) {
      for (uint32_t w = 0; w < round; ++w) clock->sync_warp(w, vgpu::kAllLanes, vgpu::kAllLanes);
      clock->sync_warp(round, 0xff, vgpu::kAllLanes);  // some lanes only
    }
    slow.sync_block(everybody, block);
    ASSERT_TRUE(quick.sync_whole_block());
    expect_equal(slow, quick);
  }
}

TEST(BlockClock, WhatFencesPublishGoesTheLongWay) {
  BlockClock clock(7, kWarps);
  clock.fence(2, true);
  EXPECT_FALSE(clock.sync_whole_block());
}

TEST(BlockClock, BeginsAnewInItsMemory) {
  BlockClock clock(7, kWarps);
  clock.fence(1, true);
  clock.sync_warp(3, 0xff, vgpu::kAllLanes);
  clock.warps[4].miss(128);
  clock.begin(9, kWarps);
  EXPECT_EQ(clock.id, 9u);
  EXPECT_TRUE(clock.warps[1].is_plain());
  EXPECT_TRUE(clock.warps[4].is_plain());
  expect_equal(clock, BlockClock(9, kWarps));
}

}  // namespace
}  // namespace assay::checks
