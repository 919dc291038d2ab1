#include "reference/torch_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/python.h"

namespace assay::reference {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr double kAnswerSeconds = 120;  // of one answer, the import of torch included
constexpr int kTorchGlance = 50;        // milliseconds between looks at whether to stop
constexpr std::size_t kLongestAnswer = 1 << 20;

// No device and none of the checker's settings: the process computes on the CPU, whatever surrounds it.
std::vector<std::string> variables(const std::string& package) {
  constexpr std::string_view kLeftOut[] = {
      "LD_PRELOAD=", "ASSAY_SETTINGS=", "CUDA_VISIBLE_DEVICES=", "PYTHONPATH="};
  std::vector<std::string> list;
  for (char** one = environ; *one; ++one)
    if (std::ranges::none_of(kLeftOut, [&](auto name) { return std::string_view(*one).starts_with(name); }))
      list.emplace_back(*one);
  list.emplace_back("CUDA_VISIBLE_DEVICES=");
  list.push_back("PYTHONPATH=" + path_with(package, "PYTHONPATH"));
  return list;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The last line that the process wrote on stderr.
std::string last_line(const std::string& path) {
  std::string all = text_of(path);
  while (!all.empty() && all.back() == '\n') all.pop_back();
  const std::size_t line = all.rfind('\n');
  return line == std::string::npos ? all : all.substr(line + 1);
}

}  // namespace

void TorchProcess::end() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  child_ = to_ = from_ = -1;
}

void TorchProcess::start() {
  if (started_) return;
  started_ = true;
  const std::string package = python_package_folder();
  if (folder_.path().empty())
    problem_ = Error{"no temporary folder could be created"};
  else if (package.empty())
    problem_ = Error{"Assay's Python package is not next to the program; install all of Assay"};
  else if (Result<void> spawned = spawn(package); !spawned)
    problem_ = spawned.error();
}

Result<void> TorchProcess::spawn(const std::string& package) {
  const std::vector<std::string> words = {python_program(), "-m", "assay.reference.server"};
  const std::vector<std::string> environment = variables(package);
  const std::vector<char*> argv = pointers_to(words), env = pointers_to(environment);
  const std::string log = folder_.file("log");
  int in[2], out[2];
  // A socket, so that a question to a process that has died is an error and not a signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return Error{fmt::format("socketpair: {}", std::strerror(errno))};
  if (pipe2(out, O_CLOEXEC) != 0) return Error{fmt::format("pipe: {}", std::strerror(errno))};
  child_ = fork();
  if (child_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);  // an interruption at the terminal is the judge's to handle
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    execvpe(argv[0], argv.data(), env.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (child_ < 0) return Error{fmt::format("fork: {}", std::strerror(errno))};
  return {};
}

Result<void> TorchProcess::tell(const Json& what) {
  start();
  if (child_ < 0) return problem_;
  const std::string line = what.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = send(to_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return lost();
    sent += static_cast<std::size_t>(n);
  }
  return {};
}

Result<Json> TorchProcess::ask(const Json& question) {
  if (Result<void> told = tell(question); !told) return told.error();
  const auto limit = Clock::now() + std::chrono::duration<double>(kAnswerSeconds);
  for (;;) {
    if (const std::size_t newline = received_.find('\n'); newline != std::string::npos) {
      Json answer = Json::parse(received_.substr(0, newline), nullptr, false);
      received_.erase(0, newline + 1);
      if (!answer.is_object()) return stop(fmt::format("{} gave no answer", python_program()));
      return answer;
    }
    if (interrupted()) return stop("interrupted");
    if (Clock::now() > limit)
      return stop(fmt::format("{} gave no answer within {:.0f} s", python_program(), kAnswerSeconds));
    pollfd waiting{from_, POLLIN, 0};
    if (poll(&waiting, 1, kTorchGlance) <= 0) continue;
    char buffer[4096];
    const ssize_t n = read(from_, buffer, sizeof buffer);
    if (n <= 0) return lost();
    received_.append(buffer, static_cast<std::size_t>(n));
    if (received_.size() > kLongestAnswer) return stop(fmt::format("{} gave no answer", python_program()));
  }
}

Error TorchProcess::stop(std::string why) {
  end();
  return problem_ = Error{std::move(why)};
}

Error TorchProcess::lost() {
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  if (interrupted()) return stop("interrupted");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return stop(fmt::format("{} could not be started", python_program()));
  const std::string said = last_line(folder_.file("log"));
  if (said.find("No module named 'torch'") != std::string::npos)
    return stop(missing_module("PyTorch", "torch"));
  return stop(fmt::format("{} ended: {}", python_program(), said));
}

}  // namespace assay::reference
