#include "subject/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/interrupt.h"

namespace assay::subject {

namespace {

constexpr std::size_t kMostOutput = 256 << 10;
using Clock = std::chrono::steady_clock;

// "NAME=value" of each of this program's variables, those of the options instead of its own.
std::vector<std::string> variables_with(const CommandOptions& options) {
  std::vector<std::string> set = options.variables;
  if (!options.temporary.empty()) set.push_back("TMPDIR=" + options.temporary);
  std::vector<std::string> variables;
  for (char** one = environ; *one; ++one) {
    const std::string_view name = std::string_view(*one).substr(0, std::string_view(*one).find('=') + 1);
    if (std::none_of(set.begin(), set.end(), [&](const std::string& own) { return own.starts_with(name); }))
      variables.emplace_back(*one);
  }
  variables.insert(variables.end(), set.begin(), set.end());
  return variables;
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

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Result<CommandResult> run_command(const std::vector<std::string>& argv, double timeout_seconds,
                                  const CommandOptions& options) {
  const std::vector<std::string> variables = variables_with(options);
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

std::string why_not_for_nvcc(const std::string& path) {
  std::error_code error;
  const std::string whole = std::filesystem::absolute(path, error).string();  // as nvcc makes it
  if (whole.find_first_of("\"$`\\\n") == std::string::npos) return "";
  return "nvcc passes paths to a shell, which would read this one as a command; rename the file or its "
         "folder, "
         "without \", $, ` and \\";
}

bool has_children(pid_t process) {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), error))
    if (!text_of(task.path().string() + "/children").empty()) return true;
  return false;
}

// proc(5): "pid (name) state ppid pgrp session …".
void kill_session(pid_t session) {
  for (bool found = true; found;) {
    found = false;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const pid_t process = std::atoi(entry.path().filename().c_str());
      if (process <= 0) continue;
      const std::string text = text_of(entry.path().string() + "/stat");
      const std::size_t name_end = text.rfind(')');
      if (name_end == std::string::npos) continue;
      std::istringstream fields(text.substr(name_end + 1));
      char state = 0;
      pid_t parent = 0, group = 0, own_session = 0;
      fields >> state >> parent >> group >> own_session;
      if (own_session != session || state == 'Z' || state == 'X') continue;
      kill(process, SIGKILL);
      found = true;
    }
    if (found) usleep(1000);
  }
}

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace assay::subject
