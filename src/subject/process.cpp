#include "subject/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/interrupt.h"

extern char** environ;

namespace assay::subject {

namespace {

constexpr std::size_t kMostOutput = 256 << 10;
constexpr long kGlance = 50;  // milliseconds between looks at whether to stop
using Clock = std::chrono::steady_clock;

// "NAME=value" of each of this program's variables, with its own place for temporary files.
std::vector<std::string> variables_with(const std::string& temporary) {
  constexpr std::string_view kTemporary = "TMPDIR=";
  std::vector<std::string> variables;
  for (char** one = environ; *one; ++one)
    if (temporary.empty() || !std::string_view(*one).starts_with(kTemporary)) variables.emplace_back(*one);
  if (!temporary.empty()) variables.push_back(std::string(kTemporary) + temporary);
  return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void become(char* const* argv, char* const* variables, const std::string& folder, int out) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(126);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(out, 1);
  dup2(out, 2);
  execvpe(argv[0], argv, variables);
  _exit(127);
}

}  // namespace

Result<CommandResult> run_command(const std::vector<std::string>& argv, double timeout_seconds,
                                  const CommandOptions& options) {
  const std::vector<std::string> variables = variables_with(options.temporary);
  const std::vector<char*> words = pointers_to(argv), environment = pointers_to(variables);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{fmt::format("pipe: {}", std::strerror(errno))};
  const pid_t child = fork();
  if (child < 0) return Error{fmt::format("fork: {}", std::strerror(errno))};
  if (child == 0) become(words.data(), environment.data(), options.folder, ends[1]);
  close(ends[1]);
  CommandResult result;
  const auto end = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || interrupted()) {
      result.timed_out = left <= 0;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);  // should it not have got to make its group
      break;
    }
    pollfd waiting{ends[0], POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min<long>(left, kGlance))) <= 0) continue;
    char buffer[4096];
    const ssize_t got = read(ends[0], buffer, sizeof buffer);
    if (got <= 0) break;
    if (result.output.size() < kMostOutput) result.output.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (interrupted() && !result.timed_out) return Error{"interrupted"};
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace assay::subject
