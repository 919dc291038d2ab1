#include "assayer/own_time.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <vector>

namespace assay::assayer {
namespace {

double measured(OwnTime& time, double apart = 0) {
  return time.seconds({}, apart);
}

void spin(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
  }
}

TEST(OwnTime, GoesWithTheWallWhileNothingWaitsForAProcessor) {
  OwnTime time;
  usleep(300'000);
  EXPECT_GT(measured(time), 0.25);
}

TEST(OwnTime, LeavesOutWhatIsNotToCount) {
  OwnTime time;
  usleep(200'000);
  EXPECT_LT(measured(time, 0.15), 0.15);
}

// Nine processes share one processor: each runs for a ninth of the time.
TEST(OwnTime, StandsStillWhileOthersHaveTheProcessor) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &before)) continue;
    CPU_SET(i, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  if (waited_for_processor(0) == 0) GTEST_SKIP() << "this system does not tell how long a task waited";
  std::vector<pid_t> others;
  for (int i = 0; i < 8; ++i) {
    const pid_t other = fork();
    if (other == 0)
      for (;;) {
      }
    others.push_back(other);
  }
  OwnTime time;
  spin(1);
  const double own = measured(time);
  for (const pid_t other : others) {
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
  }
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_LT(own, 0.6);
  EXPECT_GT(own, 0.04);
}

}  // namespace
}  // namespace assay::assayer
