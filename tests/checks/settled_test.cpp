// What SettledRows says of 32 lanes at once is what it says of each.
#include <gtest/gtest.h>

#include <random>

#include "checks/race_settled.h"
#include "checks/race_shadow.h"

namespace assay::checks {
namespace {

using vgpu::Address;

constexpr Address kBase = Address{1} << 40;
constexpr uint32_t kRows = 24, kGrid = 5, kOtherGrid = 7;  // whose bits include the first

// Rows of every state: of this grid and another, open and settled words, stores.
void fill(SettledRows& rows, std::mt19937& random) {
  for (uint32_t row = 0; row < kRows; ++row) {
    const Address at = kBase + row * kRowBytes;
    const uint32_t grid = random() % 4 ? kGrid : kOtherGrid;
    const auto some = [&] { return static_cast<uint16_t>(random() % 3 ? 0xffff : random()); };
    if (random() % 8) rows.open(grid, at, some());
    if (random() % 4) rows.set(grid, at, some());
    if (random() % 4 == 0) rows.store(at);
    if (random() % 8 == 0) rows.write(grid, at, 1u << random() % 16);
  }
}

TEST(SettledRows, SaysOfAllLanesWhatItSaysOfEach) {
  std::mt19937 random(11);
  uint32_t covered = 0, open_somewhere = 0;
  for (int round = 0; round < 400; ++round) {
    SettledRows rows(kBase, kRows * kRowBytes);
    fill(rows, random);
    for (const uint32_t bytes : {1u, 2u, 4u, 8u, 16u, 32u}) {
      Address addresses[vgpu::kWarpSize];
      const uint32_t reach = random() % 2 ? 1 : 1 + random() % kRows;  // rows, and at times one past the last
      for (Address& at : addresses)
        at = kBase + random() % (reach * kRowBytes + (random() % 64 == 0 ? kRowBytes : 0)) / bytes * bytes;
      vgpu::Access access{};
      access.shape = vgpu::Shape::Other;
      access.addresses = addresses;
      access.bytes = bytes;
      access.lanes = random() % 4 ? 0xffffffff : static_cast<uint32_t>(random()) | 1;
      uint32_t settled = 0, open = 0, stored = 0;
      for (uint32_t l = 0; l < vgpu::kWarpSize; ++l) {
        if ((access.lanes >> l & 1) == 0) continue;
        const SettledRows::Words known = rows.words(kGrid, addresses[l]);
        const uint32_t wanted = ((1u << (bytes + 3) / 4) - 1) << (addresses[l] / 4 % 16);
        if ((wanted & ~uint32_t{known.settled}) == 0) settled |= 1u << l;
        if ((wanted & ~uint32_t{known.open}) == 0) open |= 1u << l;
        if (known.stored) stored |= 1u << l;
      }
      EXPECT_EQ(rows.covers(kGrid, access), settled == access.lanes) << round << ", " << bytes;
      uint32_t stored_too = 0;
      EXPECT_EQ(rows.open_lanes(kGrid, access, access.lanes, stored_too), open) << round << ", " << bytes;
      EXPECT_EQ(stored_too, stored) << round << ", " << bytes;
      covered += settled == access.lanes;
      open_somewhere += open != 0;
    }
  }
  EXPECT_GT(covered, 50u);
  EXPECT_GT(open_somewhere, 50u);
}

// The words of an access that is not aligned may lie in two rows.
TEST(SettledRows, LooksAtBothRowsOfAnAccess) {
  SettledRows rows(kBase, kRows * kRowBytes);
  rows.open(kGrid, kBase, 0xffff);  // whose bits lie above those of settled words
  rows.set(kGrid, kBase, 0xffff);
  Address addresses[vgpu::kWarpSize];
  for (Address& at : addresses) at = kBase;
  addresses[9] = kBase + kRowBytes - 4;
  vgpu::Access access{};
  access.shape = vgpu::Shape::Other;
  access.addresses = addresses;
  access.bytes = 8;
  access.lanes = 0xffffffff;
  EXPECT_FALSE(rows.covers(kGrid, access));
}

}  // namespace
}  // namespace assay::checks
