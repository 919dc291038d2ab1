#include "subject/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

namespace assay::subject {

namespace {

constexpr std::size_t kMostOutput = 256 << 10;
using Clock = std::chrono::steady_clock;

[[noreturn]] void become(const std::vector<std::string>& argv, const std::string& folder, int out) {
  setpgid(0, 0);
  if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(out, 1);
  dup2(out, 2);
  std::vector<char*> raw;
  for (const std::string& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);
  execvp(raw[0], raw.data());
  _exit(127);
}

}  // namespace

Result<CommandResult> run_command(const std::vector<std::string>& argv, double timeout_seconds,
                                  const std::string& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{fmt::format("pipe: {}", std::strerror(errno))};
  const pid_t child = fork();
  if (child < 0) return Error{fmt::format("fork: {}", std::strerror(errno))};
  if (child == 0) become(argv, folder, ends[1]);
  close(ends[1]);
  CommandResult result;
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      break;
    }
    pollfd waiting{ends[0], POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min<long>(left, 1000))) <= 0) continue;
    char buffer[4096];
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    if (got <= 0) break;
    if (result.output.size() < kMostOutput) result.output.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace assay::subject
