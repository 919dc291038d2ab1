#include "assayer/ownership.h"

#include <gtest/gtest.h>

#include <functional>

namespace assay::assayer {
namespace {

using Grid = std::array<int64_t, 3>;
using Piece = LaunchWrites::Piece;

constexpr int64_t kTile = 64;

// An output of `rows` by `cols` whose tiles are where `tile_of` says, as numbers of a tile.
LaunchWrites tiled(int64_t rows, int64_t cols, Grid grid,
                   const std::function<std::optional<std::pair<int64_t, int64_t>>(const Grid&)>& tile_of,
                   const std::vector<uint64_t>& only = {}) {
  LaunchWrites writes{.grid = grid, .extents = {rows, cols}};
  const auto run = [&](uint64_t block) {
    const auto at = static_cast<int64_t>(block);
    Piece piece;
    if (const auto tile = tile_of({at % grid[0], at / grid[0] % grid[1], at / grid[0] / grid[1]})) {
      const int64_t row = tile->first * kTile, column = tile->second * kTile;
      const int64_t height = std::min(kTile, rows - row), width = std::min(kTile, cols - column);
      piece = {row * cols + column, width, cols, height, 0, 1};
      if (width == cols) piece = {row * cols, width * height, 0, 1, 0, 1};
      if (height <= 0 || width <= 0) piece = {};
    }
    writes.blocks[block] = piece;
  };
  if (only.empty())
    for (uint64_t block = 0; block < static_cast<uint64_t>(grid[0] * grid[1] * grid[2]); ++block) run(block);
  for (const uint64_t block : only) run(block);
  return writes;
}

int64_t tiles(int64_t extent) {
  return (extent + kTile - 1) / kTile;
}

constexpr int64_t kRows = 4'194'304, kCols = 100;
// Both ends and some between.
std::vector<uint64_t> some_of(int64_t blocks) {
  std::vector<uint64_t> chosen = {0, static_cast<uint64_t>(blocks) - 1};
  for (int64_t i = 1; i < 40; ++i) chosen.push_back(static_cast<uint64_t>(blocks / 40 * i + i));
  return chosen;
}

std::pair<int64_t, int64_t> on_axes(const Grid& at) {
  return {at[1], at[0]};
}

Ownership learnt_on_axes() {
  std::vector<LaunchWrites> whole;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{150, 150}, {777, 45}, {45, 777}})
    whole.push_back(tiled(rows, cols, {tiles(cols), tiles(rows), 1}, on_axes));
  return Ownership::learn(whole);
}

TEST(Ownership, OfTilesOnAxesOfTheGridIsLearnt) {
  const Ownership ownership = learnt_on_axes();
  ASSERT_FALSE(ownership.empty());
  const Grid grid{tiles(kCols), tiles(kRows), 1};
  EXPECT_FALSE(ownership.missing(tiled(kRows, kCols, grid, on_axes, some_of(grid[0] * grid[1]))));
}

// So few of all elements that no sum of what blocks write shows it: the second column of tiles is not full.
TEST(Ownership, SaysWhatAGridThatIsTooSmallLeavesOut) {
  const Grid grid{tiles(kCols), tiles(kRows) - 1, 1};
  const auto missing =
      learnt_on_axes().missing(tiled(kRows, kCols, grid, on_axes, some_of(grid[0] * grid[1])));
  ASSERT_TRUE(missing);
  EXPECT_FALSE(missing->owner);
  EXPECT_EQ(missing->element, (kRows - kTile) * kCols);
  EXPECT_GE(missing->count, 2);
}

TEST(Ownership, NamesTheBlockThatWritesLessThanItsTile) {
  const Grid grid{tiles(kCols), tiles(kRows), 1};
  const auto lazy = [&](const Grid& at) -> std::optional<std::pair<int64_t, int64_t>> {
    if (at[1] == tiles(kRows) - 1) return std::nullopt;
    return on_axes(at);
  };
  const auto missing = learnt_on_axes().missing(tiled(kRows, kCols, grid, lazy, some_of(grid[0] * grid[1])));
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->owner, static_cast<uint64_t>(grid[0] * grid[1] - 1));
  EXPECT_EQ(missing->element, (kRows - kTile) * kCols + kTile);
  EXPECT_EQ(missing->count, kTile * (kCols - kTile));
}

TEST(Ownership, OfNumberedTilesIsLearnt) {
  const auto numbered = [](int64_t cols) {
    return [cols](const Grid& at) {
      return std::optional(std::pair{at[0] / tiles(cols), at[0] % tiles(cols)});
    };
  };
  std::vector<LaunchWrites> whole;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{150, 150}, {777, 45}, {45, 777}})
    whole.push_back(tiled(rows, cols, {tiles(rows) * tiles(cols), 1, 1}, numbered(cols)));
  const Ownership ownership = Ownership::learn(whole);
  ASSERT_FALSE(ownership.empty());
  const int64_t blocks = tiles(kRows) * tiles(kCols);
  EXPECT_FALSE(ownership.missing(tiled(kRows, kCols, {blocks, 1, 1}, numbered(kCols), some_of(blocks))));
  const int64_t fewer = blocks - 1;
  const auto missing = ownership.missing(tiled(kRows, kCols, {fewer, 1, 1}, numbered(kCols), some_of(fewer)));
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->element, (kRows - kTile) * kCols + kTile);
}

TEST(Ownership, OfElementsInOrderDoesNotCareAboutRows) {
  const auto flat = [](int64_t rows, int64_t cols, int64_t blocks) {
    LaunchWrites writes{.grid = {blocks, 1, 1}, .extents = {rows, cols}};
    for (const uint64_t block : some_of(blocks)) {
      const auto first = static_cast<int64_t>(block) * 256;
      if (first < rows * cols) writes.blocks[block] = {first, std::min<int64_t>(256, rows * cols - first)};
    }
    return writes;
  };
  LaunchWrites small{.grid = {20, 1, 1}, .extents = {50, 100}};
  for (uint64_t block = 0; block < 20; ++block)
    small.blocks[block] = {static_cast<int64_t>(block) * 256,
                           std::min<int64_t>(256, 5000 - static_cast<int64_t>(block) * 256)};
  const Ownership ownership = Ownership::learn(std::span(&small, 1));
  ASSERT_FALSE(ownership.empty());
  const int64_t blocks = kRows * kCols / 256;
  EXPECT_FALSE(ownership.missing(flat(kRows, kCols, blocks)));
  EXPECT_TRUE(ownership.missing(flat(kRows, kCols, blocks - 1)));
}

// Groups of eight rows of tiles, one after the other: right, and no rule says who writes what.
TEST(Ownership, SaysNothingOfSwizzledTiles) {
  const auto swizzled = [](int64_t rows, int64_t cols) {
    return [=](const Grid& at) {
      const int64_t wide = tiles(cols), group = at[0] / (8 * wide), first = group * 8;
      const int64_t size = std::min<int64_t>(8, tiles(rows) - first), rest = at[0] % (8 * wide);
      return std::optional(std::pair{first + rest % size, rest / size});
    };
  };
  std::vector<LaunchWrites> whole;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{150, 150}, {777, 150}, {45, 777}})
    whole.push_back(tiled(rows, cols, {tiles(rows) * tiles(cols), 1, 1}, swizzled(rows, cols)));
  const Ownership ownership = Ownership::learn(whole);
  const int64_t blocks = tiles(kRows) * tiles(kCols);
  EXPECT_FALSE(
      ownership.missing(tiled(kRows, kCols, {blocks, 1, 1}, swizzled(kRows, kCols), some_of(blocks))));
}

// At giant shapes other blocks than at small ones may do the rest.
TEST(Ownership, SaysNothingWhereABlockWritesAnothersTile) {
  const Grid grid{tiles(kCols), tiles(kRows), 1};
  const auto moved = [&](const Grid& at) -> std::optional<std::pair<int64_t, int64_t>> {
    if (at[1] == tiles(kRows) - 1) return std::nullopt;
    if (at[1] == 0 && at[0] == 0) return std::pair{tiles(kRows) - 1, int64_t{1}};
    return on_axes(at);
  };
  EXPECT_FALSE(learnt_on_axes().missing(tiled(kRows, kCols, grid, moved, some_of(grid[0] * grid[1]))));
}

TEST(Ownership, IsLearntFromPiecesOfTheOutputAlone) {
  protocol::SampledLaunch launch{.grid = {2, 1, 1}, .writes = {{.buffer = "y"}, {.buffer = "z"}}};
  launch.pieces = {{.block = 0, .writes = 1, .offset = 8, .length = 4},
                   {.block = 0, .writes = 0, .offset = 0, .length = 8},
                   {.block = 1}};
  const auto writes = writes_of(launch, "y", {4}, 4);
  ASSERT_TRUE(writes);
  EXPECT_EQ(writes->blocks.at(0).length, 2);
  EXPECT_EQ(writes->blocks.at(1).length, 0);
  launch.pieces[1].count = 0;  // no such form
  EXPECT_FALSE(writes_of(launch, "y", {4}, 4));
  launch.pieces[1] = {.block = 0, .writes = 0, .offset = 2, .length = 8};  // not on an element
  EXPECT_FALSE(writes_of(launch, "y", {4}, 4));
}

}  // namespace
}  // namespace assay::assayer
