// What happens around an application: it forks, its contract changes, somebody starts a second assayd.
#include <sys/wait.h>
#include <unistd.h>

#include "application.h"

namespace assay::assayd {
namespace {

// The child has no thread of the monitor and no device: its samples are drops, and it ends.
TEST_F(MonitorTest, AForkedChildLeavesTheWatchToItsParent) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open();
  constexpr int kCalls = 50;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(10);  // it must not hang
    int n = 64, tickets = 0;
    void* args[] = {&x_, &y_, &n};
    for (int i = 0; i < kCalls; ++i) {
      const uint64_t ticket = assay_before(watch, args, stream_);
      tickets += ticket != 0;
      assay_after(watch, ticket, args, stream_);
    }
    const bool is_flushed = assay_flush(watch, 5000) == 0;
    assay_close(watch);
    _exit(tickets == 0 && !is_flushed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(daemon.becomes("assay_samples_dropped_total", kCalls, "reason=\"device_error\""));
  const double before = daemon.value("assay_samples_judged_total");
  call(watch, 64);
  ASSERT_EQ(assay_flush(watch, 3000), 0);
  EXPECT_TRUE(daemon.becomes("assay_samples_judged_total", before + 1));
}

// Each application is judged by the contract that it read when it started.
TEST_F(MonitorTest, AContractThatChangesCountsForThoseWhoStartLater) {
  RunningDaemon daemon(folder_.path());
  assay_watch* before = open();
  std::string text = contract_text("scale", "every = 1\nelements = 64\nmax_bytes = \"1MiB\"\n");
  text.replace(text.find("2 * x[i]"), 1, "3");
  std::ofstream(folder_.file("scale.toml")) << text;
  call(before, 64);
  ASSERT_EQ(assay_flush(before, 3000), 0);
  EXPECT_EQ(daemon.value("assay_alarm"), 0);
  assay_watch* after = nullptr;
  ASSERT_EQ(assay_open(folder_.file("scale.toml").c_str(), nullptr, &after), 0) << assay_error();
  open_.push_back(after);
  for (int i = 0; i < 300 && daemon.value("assay_alarm") < 1; ++i) {
    call(after, 64);
    assay_flush(after, 100);
  }
  EXPECT_EQ(daemon.value("assay_alarm"), 1);  // of one of the two
  call(before, 64);
  ASSERT_EQ(assay_flush(before, 3000), 0);
  EXPECT_EQ(daemon.value("assay_alarm"), 1);
}

TEST_F(MonitorTest, ASecondAssaydOnTheSameSocketIsRefused) {
  RunningDaemon daemon(folder_.path());
  Daemon second(
      {.socket = folder_.file("s"), .state = folder_.file("other"), .public_key = "", .captures = 1});
  const auto opened = second.open();
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text().find("another assayd is already running"), std::string::npos);
  assay_watch* watch = open();  // the first one still answers
  call(watch, 64);
  EXPECT_EQ(assay_flush(watch, 3000), 0);
}

}  // namespace
}  // namespace assay::assayd
