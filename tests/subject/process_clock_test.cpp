#include "subject/process_clock.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace assay::subject {
namespace {

// What is read of a process that is being reaped fails half-way; the clock goes on.
TEST(ProcessClock, OutlivesItsProcess) {
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    ASSERT_GT(child, 0);
    std::thread reaper([child] {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    });
    ProcessClock clock(child);
    for (int look = 0; look < 20; ++look) EXPECT_GE(clock.seconds(), 0);
    reaper.join();
    EXPECT_GE(clock.seconds(), 0);
  }
}

TEST(ProcessClock, GoesWithTheWallWhileAProcessSleeps) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  ProcessClock clock(child);
  usleep(300'000);
  EXPECT_GT(clock.seconds(), 0.2);
  EXPECT_EQ(clock.threads(), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// Two processes on one processor: each waits while the other runs.
TEST(WaitedForProcessor, IsTimeThatOthersHad) {
  cpu_set_t one, before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const double waited = waited_for_processor();
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
    }
  }
  ASSERT_GT(child, 0);
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(400)) {
  }
  const double mine = waited_for_processor() - waited, others = waited_for_processor(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sched_setaffinity(0, sizeof before, &before);
  if (mine == 0 && others == 0) GTEST_SKIP() << "the kernel does not count it";
  EXPECT_GT(mine, 0.1);
  EXPECT_GT(others, 0.1);
  EXPECT_EQ(waited_for_processor(child), 0);
}

TEST(WaitedForProcessor, IsNotTimeAsleep) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  ASSERT_GT(child, 0);
  usleep(300'000);
  EXPECT_LT(waited_for_processor(child), 0.25);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace assay::subject
