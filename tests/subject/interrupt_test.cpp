// What a check leaves behind: when it is interrupted, when it or its worker is killed, when there is no home.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "folders.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// A pass, or, with little time on a busy machine, too few trials for one.
const auto kNothingFound = ::testing::AnyOf(0, 3);

constexpr const char* kKernel = R"(#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.0f;
}
extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
)";
constexpr const char* kTwice = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i] + x[i]"
)";

// A check under way, with a cache and a place for temporary folders of its own.
class InterruptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
    std::string pattern = (fs::temp_directory_path() / "assay-interrupt-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    fs::create_directory(folder_ / "tmp");
    std::ofstream(folder_ / "k.cu") << kKernel;
    std::ofstream(folder_ / "k.toml") << kTwice;
  }
  void TearDown() override {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    if (output_ >= 0) close(output_);
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::vector<std::string> command(std::vector<std::string> args) const {
    std::vector<std::string> words = {"env", "TMPDIR=" + path("tmp"), "XDG_CACHE_HOME=" + path("cache"),
                                      std::string(kBinaryFolder) + "/bin/assay"};
    words.insert(words.end(), args.begin(), args.end());
    return words;
  }

  void start(const std::vector<std::string>& args) {
    const std::vector<std::string> words = command(args);
    std::vector<char*> raw;
    for (const std::string& word : words) raw.push_back(const_cast<char*>(word.c_str()));
    raw.push_back(nullptr);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], 1);
      dup2(ends[1], 2);
      execvp(raw[0], raw.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }

  // Until the program has said this, or for half a minute.
  bool wait_for(std::string_view words) {
    const auto end = Clock::now() + std::chrono::seconds(30);
    while (said_.find(words) == std::string::npos) {
      pollfd waiting{output_, POLLIN, 0};
      if (Clock::now() > end) return false;
      if (poll(&waiting, 1, 100) > 0 && !listen()) return false;
    }
    return true;
  }
  bool listen() {
    char part[4096];
    const ssize_t got = ::read(output_, part, sizeof part);
    if (got > 0) said_.append(part, static_cast<std::size_t>(got));
    return got > 0;
  }

  // Its exit status; 128 and the signal if it died of one.
  int end() {
    while (listen()) {
    }
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Its worker; 0: there is none.
  pid_t worker() const {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const pid_t process = std::atoi(entry.path().filename().c_str());
      if (process <= 0) continue;
      const std::string words = text_of(entry.path().string() + "/cmdline");
      if (words.find("/.run/main") != std::string::npos && words.find(path("tmp")) != std::string::npos)
        return process;
    }
    return 0;
  }
  // Between two machines that a check pretends to be, there is none for a moment.
  pid_t some_worker() const {
    for (int i = 0; i < 100 && worker() == 0; ++i) usleep(20'000);
    return worker();
  }
  bool worker_is_gone() const {
    for (int i = 0; i < 100 && worker() != 0; ++i) usleep(50'000);
    return worker() == 0;
  }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const char* place : {"tmp", "cache/assay"}) {
      std::error_code error;
      for (fs::directory_iterator it(folder_ / place, error), end; !error && it != end; it.increment(error))
        if (std::string_view(place) == "tmp" || it->path().filename().string().starts_with("tmp.a55a4."))
          names.push_back(it->path().string());
    }
    return names;
  }

  fs::path folder_;
  pid_t process_ = -1;
  int output_ = -1;
  std::string said_;
};

TEST_F(InterruptTest, SaysWhatItHadFound) {
  start({"check", path("k.toml"), "--budget", "120", "--trace", "--json", path("report.json"), "--html",
         path("report.html")});
  ASSERT_TRUE(wait_for("seed ")) << said_;
  kill(process_, SIGINT);
  EXPECT_EQ(end(), 130) << said_;
  EXPECT_THAT(said_, HasSubstr("INCONCLUSIVE"));
  EXPECT_THAT(said_, HasSubstr("interrupted (Interrupt) after"));
  const json report = json::parse(text_of(path("report.json")));
  EXPECT_EQ(report["verdict"], "inconclusive");
  EXPECT_GT(report["coverage"]["trials"], 0);
  EXPECT_TRUE(fs::exists(path("report.html")));
  EXPECT_TRUE(worker_is_gone());
  EXPECT_THAT(left(), ::testing::IsEmpty());
}

TEST_F(InterruptTest, EndsTheCompilerToo) {
  start({"check", path("k.toml"), "--json", path("report.json")});
  usleep(400'000);
  kill(process_, SIGTERM);
  EXPECT_EQ(end(), 143) << said_;
  EXPECT_THAT(said_, HasSubstr("interrupted (Terminated) after 0 trials"));
  EXPECT_EQ(json::parse(text_of(path("report.json")))["verdict"], "inconclusive");
  EXPECT_THAT(left(), ::testing::IsEmpty());
}

TEST_F(InterruptTest, AKilledWorkerLeavesNothing) {
  start({"check", path("k.toml"), "--budget", "3", "--trace"});
  ASSERT_TRUE(wait_for("seed ")) << said_;
  // Once: what shows again in a new process is the kernel's doing.
  const pid_t process = some_worker();
  ASSERT_GT(process, 0);
  kill(process, SIGKILL);
  EXPECT_THAT(end(), kNothingFound) << said_;
  EXPECT_THAT(said_, HasSubstr(" judged in "));
  EXPECT_THAT(left(), ::testing::IsEmpty());
}

TEST_F(InterruptTest, WhatAKilledCheckLeavesTheNextOneRemoves) {
  start({"check", path("k.toml"), "--budget", "120", "--trace"});
  ASSERT_TRUE(wait_for("seed ")) << said_;
  ASSERT_NE(some_worker(), 0);
  kill(process_, SIGKILL);
  EXPECT_EQ(end(), 137);
  EXPECT_TRUE(worker_is_gone());
  const std::vector<std::string> stale = left();
  ASSERT_FALSE(stale.empty());
  for (const std::string& folder : stale)  // as if it had been an hour ago
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto next = run_command(command({"check", path("k.toml"), "--budget", "1"}), 60);
  ASSERT_TRUE(next);
  EXPECT_THAT(next->status, kNothingFound) << next->output;
  EXPECT_THAT(left(), ::testing::IsEmpty());
}

TEST_F(InterruptTest, WithoutAHomeACheckWorksAndSaysSo) {
  const std::string assay = std::string(kBinaryFolder) + "/bin/assay";
  const std::vector<std::string> check = {assay, "check", path("k.toml"), "--budget", "1"};
  const std::string elsewhere = ": builds and records of trials go to " + path("tmp") + "/assay-cache-";
  for (const auto& [variables, expected] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"-u", "XDG_CACHE_HOME", "HOME=/proc"}, "/proc/.cache/assay cannot be written ("},
           {{"-u", "XDG_CACHE_HOME", "-u", "HOME"}, "neither HOME nor XDG_CACHE_HOME is set"},
           {{"XDG_CACHE_HOME=/dev/null/cache"},
            "/dev/null/cache/assay cannot be written (Not a directory)"}}) {
    std::vector<std::string> words = {"env"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.push_back("TMPDIR=" + path("tmp"));
    words.insert(words.end(), check.begin(), check.end());
    const auto result = run_command(words, 60);
    ASSERT_TRUE(result);
    EXPECT_THAT(result->status, kNothingFound) << result->output;
    EXPECT_THAT(result->output, HasSubstr(" judged in "));
    EXPECT_THAT(result->output, HasSubstr("assay: " + expected));
    EXPECT_THAT(result->output, HasSubstr(elsewhere));
  }
}

}  // namespace
}  // namespace assay::subject
