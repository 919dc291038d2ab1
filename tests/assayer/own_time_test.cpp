#include "assayer/own_time.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace assay::assayer {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// This thread and a process that never rests, on one processor.
class OwnTimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cpu_set_t one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    child_ = fork();
    if (child_ == 0) {
      for (;;) {
      }
    }
    ASSERT_GT(child_, 0);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    sched_setaffinity(0, sizeof before_, &before_);
  }
  static void work(double seconds) {
    const auto start = Clock::now();
    while (since(start) < seconds) {
    }
  }
  pid_t child_ = -1;
  cpu_set_t before_{};
};

TEST_F(OwnTimeTest, LeavesOutWhatOthersHad) {
  OwnTime own;
  const double waited = waited_for_processor(0);
  const auto start = Clock::now();
  work(0.4);
  if (waited_for_processor(0) == 0) GTEST_SKIP() << "the system does not tell";
  EXPECT_GT(waited_for_processor(0) - waited, 0.1);
  const double elapsed = since(start), seconds = own.seconds({}, 0);
  EXPECT_LT(seconds, 0.75 * elapsed);
  EXPECT_GT(seconds, 0.04 * elapsed);
  // What works for the check counts as it does, and time apart does not.
  OwnTime both;
  work(0.2);
  EXPECT_LE(both.seconds({{child_}}, 0), since(start));
  EXPECT_LE(OwnTime().seconds({}, 1), 0);
}

TEST_F(OwnTimeTest, SleepIsOwnTime) {
  OwnTime own;
  const auto start = Clock::now();
  usleep(300'000);
  EXPECT_GT(own.seconds({}, 0), 0.5 * since(start));
}

}  // namespace
}  // namespace assay::assayer
