#include "subject/process_clock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace assay::subject
