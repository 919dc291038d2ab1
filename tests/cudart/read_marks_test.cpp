#include "cudart/read_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace assay::cudart {
namespace {

TEST(ReadMarks, CountTheBytesThatWereMarked) {
  std::mt19937 random(7);
  for (const uint64_t size : {1, 3, 4, 31, 32, 127, 128, 1000, 4096, 4099}) {
    ReadMarks marks(size);
    std::vector<bool> expected(size);
    const auto count = [&] {
      return static_cast<uint64_t>(std::count(expected.begin(), expected.end(), true));
    };
    EXPECT_EQ(marks.count(), 0u);
    for (int i = 0; i < 40; ++i) {
      // Lengths of loads, of runs of a warp and of copies.
      constexpr uint64_t kLengths[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 3, 77};
      const uint64_t first = random() % size,
                     bytes = std::min(kLengths[random() % std::size(kLengths)], size - first);
      marks.mark(first, bytes);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), bytes, true);
      ASSERT_EQ(marks.count(), count()) << size << " bytes, after " << first << " + " << bytes;
    }
    marks.mark(0, size);
    EXPECT_EQ(marks.count(), size);
  }
}

// A warp that reads row after row, then columns, then single bytes.
TEST(ReadMarks, WholeRowsAndWordsCountOnce) {
  constexpr uint64_t kBytes = 40 * ReadMarks::kRow + 12;
  ReadMarks marks(kBytes);
  ASSERT_TRUE(marks.is_known());
  for (uint64_t row = 0; row < 20; row += 2) marks.mark(row * ReadMarks::kRow, 2 * ReadMarks::kRow);
  EXPECT_EQ(marks.count(), 20 * ReadMarks::kRow);
  for (uint64_t row = 10; row < 30; ++row) ReadMarks::mark_word(marks.granules(), row * ReadMarks::kRow + 8);
  EXPECT_EQ(marks.count(), 20 * ReadMarks::kRow + 10 * 4);
  marks.mark(kBytes - 3, 3);
  EXPECT_EQ(marks.count(), 20 * ReadMarks::kRow + 10 * 4 + 3);
  marks.mark(0, kBytes);
  EXPECT_EQ(marks.count(), kBytes);
}

TEST(ReadMarks, ThreadsDoNotLoseEachOthersMarks) {
  constexpr uint64_t kBytes = 1 << 16;
  ReadMarks marks(kBytes);
  std::vector<std::thread> threads;
  for (uint64_t part = 0; part < 4; ++part)
    threads.emplace_back([&, part] {
      for (uint64_t at = part; at < kBytes; at += 4) marks.mark(at, 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(marks.count(), kBytes);
}

}  // namespace
}  // namespace assay::cudart
