// What happens around an application: it forks, its contract changes, somebody starts a second assayd.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>

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

// A connection as a program makes one that is not libassay_monitor.
class Stranger {
 public:
  explicit Stranger(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Stranger() { close(socket_); }
  void send(const std::array<int, 2>& files) const {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof files)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof files);
    std::memcpy(CMSG_DATA(header), files.data(), sizeof files);
    EXPECT_EQ(sendmsg(socket_, &message, 0), 1);
  }

 private:
  int socket_ = -1;
};

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

TEST_F(MonitorTest, FilesThatNobodyAskedForAreClosed) {
  RunningDaemon daemon(folder_.path());
  const std::ptrdiff_t before = open_files();
  for (int i = 0; i < 8; ++i) {
    const Stranger stranger(folder_.file("s"));
    stranger.send({STDIN_FILENO, STDIN_FILENO});
    EXPECT_TRUE(daemon.becomes("assay_applications_refused_total", i + 1));
  }
  for (int i = 0; i < 200 && open_files() > before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(open_files(), before);
}

// Of two file descriptors for each application; without a limit, assayd could open no file any more.
TEST_F(MonitorTest, MoreApplicationsThanThereAreFilesForAreTurnedAway) {
  rlimit usual{};
  getrlimit(RLIMIT_NOFILE, &usual);
  const rlimit low{64 + 2 * 3, usual.rlim_max};
  RunningDaemon daemon(folder_.path());
  setrlimit(RLIMIT_NOFILE, &low);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 5; ++i) strangers.push_back(std::make_unique<Stranger>(folder_.file("s")));
  EXPECT_TRUE(daemon.becomes("assay_applications_refused_total", 2));
  setrlimit(RLIMIT_NOFILE, &usual);
  strangers.clear();
  EXPECT_EQ(daemon.value("assay_applications_refused_total"), 2);
  assay_watch* watch = open();
  call(watch, 64);
  EXPECT_EQ(assay_flush(watch, 3000), 0);
}

// Each deployment brings another build: the metrics of old ones end at some time.
TEST_F(MonitorTest, KernelsThatNobodyCallsMakeRoom) {
  RunningDaemon daemon(folder_.path(), "", 100, 2);
  const auto is_watched = [&](const std::string& kernel) {
    return daemon.metrics().find("assay_calls_total{kernel=\"" + kernel + "\"") != std::string::npos;
  };
  const auto end = [&] {
    assay_close(open_.back());
    open_.pop_back();
    for (int i = 0; i < 300 && daemon.value("assay_applications") > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  call(open("first"), 64, 1.0f);  // it has an alarm, and stays
  EXPECT_TRUE(daemon.becomes("assay_alarm", 1));
  end();
  open("second");
  end();
  EXPECT_TRUE(is_watched("first"));
  EXPECT_TRUE(is_watched("second"));
  open("third");
  EXPECT_TRUE(daemon.becomes("assay_samples_judged_total", 1, "kernel=\"third\""));
  EXPECT_TRUE(is_watched("first"));
  EXPECT_FALSE(is_watched("second"));
  open("fourth");
  EXPECT_TRUE(daemon.becomes("assay_samples_judged_total", 1, "kernel=\"fourth\""));
  EXPECT_FALSE(is_watched("first"));
  EXPECT_EQ(daemon.value("assay_alarms"), 1) << "the alarm is still on disk";
  // Now all of them have applications.
  open("fifth");
  EXPECT_TRUE(daemon.becomes("assay_applications_refused_total", 1));
  EXPECT_TRUE(is_watched("third") && is_watched("fourth") && !is_watched("fifth"));
}

// Names of templates are longer than names of files may be.
TEST_F(MonitorTest, AKernelWithALongNameHasAlarmAndCapture) {
  RunningDaemon daemon(folder_.path());
  call(open(std::string(240, 'x')), 64, 1.0f);
  EXPECT_TRUE(daemon.becomes("assay_alarm", 1));
  EXPECT_TRUE(daemon.becomes("assay_captures_total", 1));
  EXPECT_EQ(daemon.value("assay_alarms_not_on_disk"), 0);
}

TEST_F(MonitorTest, ACertificateThatIsNotThereIsNotValid) {
  RunningDaemon daemon(folder_.path(),
                       text_of(std::string(kSourceFolder) + "/tests/commands/inputs/signer.pub.pem"));
  std::ofstream(folder_.file("scale.toml")) << contract_text("scale", "every = 1\n");
  assay_watch* watch = nullptr;
  ASSERT_EQ(assay_open(folder_.file("scale.toml").c_str(), folder_.file("none.json").c_str(), &watch), 0)
      << assay_error();
  open_.push_back(watch);
  call(watch, 64);
  EXPECT_TRUE(daemon.becomes("assay_calls_total", 1));
  EXPECT_NE(daemon.metrics().find("assay_certificate_valid{"), std::string::npos);
  EXPECT_EQ(daemon.value("assay_certificate_valid"), 0);
  EXPECT_NE(daemon.get("/").body.find("there is no such file"), std::string::npos);
}

}  // namespace
}  // namespace assay::assayd
