// Pieces of an arena do not overlap, are aligned, and come back after a release.
#include "base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace assay {
namespace {

struct Piece {
  std::byte* at;
  std::size_t bytes;
};

TEST(Arena, PiecesAreAlignedAndApart) {
  Arena arena;
  std::vector<Piece> pieces;
  for (const std::size_t bytes : {1, 3, 64, 100, 4096, 3 << 20, 17, (1 << 20) - 64, 5}) {
    for (const std::size_t align : {1, 8, 64}) {
      auto* at = static_cast<std::byte*>(arena.allocate(bytes, align));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % align, 0u);
      std::memset(at, static_cast<int>(pieces.size() + 1), bytes);
      pieces.push_back({at, bytes});
    }
  }
  for (std::size_t i = 0; i < pieces.size(); ++i)
    EXPECT_TRUE(std::all_of(pieces[i].at, pieces[i].at + pieces[i].bytes, [&](std::byte b) {
      return b == static_cast<std::byte>(i + 1);
    })) << i;
}

TEST(Arena, WhatIsReleasedIsUsedAgain) {
  Arena arena;
  double* kept = arena.get<double>(10);
  kept[9] = 7;
  const Arena::Mark mark = arena.mark();
  double* first = arena.get<double>(1000);
  for (int i = 0; i < 300; ++i) arena.get<double>(1000);  // over several chunks
  arena.release(mark);
  EXPECT_EQ(arena.get<double>(1000), first);
  EXPECT_EQ(kept[9], 7);
}

// A chunk that is too small for a large piece is not lost, and nothing that is in use moves.
TEST(Arena, LargePiecesFitBetweenReleases) {
  Arena arena;
  arena.get<char>(1 << 19);
  const Arena::Mark mark = arena.mark();
  arena.get<char>(1 << 20);
  arena.release(mark);
  char* large = arena.get<char>(1 << 22);
  std::memset(large, 1, 1 << 22);
  char* next = arena.get<char>(100);
  std::memset(next, 2, 100);
  EXPECT_EQ(large[(1 << 22) - 1], 1);
}

}  // namespace
}  // namespace assay
