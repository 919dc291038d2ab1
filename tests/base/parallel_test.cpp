// Threads: every piece of work is done once, and reported in order.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace assay {
namespace {

TEST(ThreadPool, RunsEachIndexOnceAndCanBeUsedAgain) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.size(), 4u);
  for (const unsigned count : {4u, 1u, 2u, 4u}) {
    std::vector<std::atomic<int>> runs(4);
    pool.run(count, [&](unsigned i) { ++runs[i]; });
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(runs[i], i < count ? 1 : 0) << count;
  }
}

TEST(ThreadPool, RunsAsManyAtOnceAsAskedFor) {
  ThreadPool pool(8);
  for (unsigned round = 0; round < 500; ++round) {
    const unsigned count = 1 + round % pool.size();
    std::atomic<unsigned> arrived = 0;
    pool.run(count, [&](unsigned) {
      for (++arrived; arrived < count;) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, count);
  }
}

TEST(InParallel, CoversEveryElementOnce) {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    std::vector<std::atomic<int>> seen(1000);
    in_parallel(3, count, 7, [&](int64_t first, int64_t n) {
      EXPECT_LE(n, 7);
      for (int64_t i = first; i < first + n; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (int64_t i = 0; i < 1000; ++i)
      EXPECT_EQ(seen[static_cast<std::size_t>(i)], i < count ? 1 : 0) << count;
  }
}

TEST(InOrder, ReportsInOrderWhateverEndsFirst) {
  std::vector<std::size_t> reported;
  std::atomic<int> at_once{0}, most{0};
  in_order(
      20, 4,
      [&](std::size_t i) {
        most = std::max(most.load(), ++at_once);
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 4 == 0 ? 20 : 1));
        --at_once;
      },
      [&](std::size_t i) { reported.push_back(i); });
  ASSERT_EQ(reported.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(reported[i], i);
  EXPECT_LE(most, 4);
  EXPECT_GE(most, 2);
}

TEST(Threads, AsManyAsAskedForOrAsThereAreCores) {
  EXPECT_EQ(useful_threads(3), 3);
  EXPECT_EQ(useful_threads(0), cores());
  EXPECT_GE(cores(), 1);
}

}  // namespace
}  // namespace assay
