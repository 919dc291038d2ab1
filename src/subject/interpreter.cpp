#include "subject/interpreter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/interrupt.h"
#include "base/python.h"
#include "protocol/messages.h"
#include "protocol/protocol.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::subject {

namespace fs = std::filesystem;

namespace {

constexpr double kStartSeconds = 120;  // to import torch on a slow disk
constexpr std::size_t kMostSaid = 4000;

// The virtual GPU's runtime and driver library are loaded before torch's own, the worker's library before libc, whose
// clocks it replaces; and the package's sitecustomize prepares torch and Triton. Compilers are on the user's path.
std::vector<std::string> python_environment() {
  const std::string package = python_package_folder();
  const std::string libraries = fs::path(program_folder()).parent_path().string() + "/lib";
  std::vector<std::string> variables = {
      "LANG=C.UTF-8",
      "PYTHONDONTWRITEBYTECODE=1",
      fmt::format("LD_PRELOAD={0}/libcudart.so.13:{0}/libcuda.so.1:{0}/libassay-worker.so", libraries),
      "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",  // HostPoison of the worker
      "LD_LIBRARY_PATH=" + path_with(libraries, "LD_LIBRARY_PATH"),
      "PYTHONPATH=" + path_with(fmt::format("{0}/assay/site:{0}", package), "PYTHONPATH"),
      "PYTORCH_NO_CUDA_MEMORY_CACHING=1",
      "TRITON_LIBCUDA_PATH=" + libraries,
      "TORCHINDUCTOR_COMPILE_THREADS=1",
      fmt::format("ASSAY_WORKER_LIBRARY={}/libassay-worker.so", libraries),
      "ASSAY_QUIET=1"};
  constexpr const char* kUsers[] = {"PATH", "CUDA_HOME",       "CUDA_PATH",   "CC",
                                    "CXX",  "OMP_NUM_THREADS", "VIRTUAL_ENV", "PYTHONHOME"};
  for (const char* name : kUsers)
    if (const char* value = std::getenv(name)) variables.push_back(fmt::format("{}={}", name, value));
  if (const char* home = std::getenv("HOME"))  // packages of the user's own
    variables.push_back(fmt::format("PYTHONUSERBASE={}/.local", home));
  return variables;
}

// One message with file descriptors.
bool send_with(int socket, const std::string& text, const std::vector<int>& files) {
  iovec content{const_cast<char*>(text.data()), text.size()};
  std::vector<char> room(CMSG_SPACE(files.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::shared_ptr<Interpreter> start_interpreter(const std::string& code) {
  auto interpreter = std::make_shared<Interpreter>(code);
  interpreter->start();
  return interpreter;
}

Interpreter::~Interpreter() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (control_ >= 0) close(control_);
  if (log_file_ >= 0) close(log_file_);
}

void Interpreter::start() {
  if (child_ > 0 || !problem_.message.empty()) return;
  if (python_package_folder().empty()) {
    problem_ = Error{"Assay's Python package is not next to the program; install all of Assay"};
    return;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    problem_ = Error{fmt::format("socketpair: {}", std::strerror(errno))};
    return;
  }
  log_file_ = memfd_create("log", MFD_CLOEXEC);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<std::string> words = {python_program(), "-m", "assay.worker", std::to_string(getpid()), code_};
  const std::vector<std::string> environment = python_environment();
  const std::vector<char*> argv = pointers_to(words), variables = pointers_to(environment);
  child_ = fork();
  if (child_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    personality(ADDR_NO_RANDOMIZE);  // the same addresses in the report of the same check
    const int control = fcntl(ends[1], F_DUPFD, 16), log = fcntl(log_file_, F_DUPFD, 16),
              null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    dup2(control, protocol::kSocket);
    close_range(protocol::kSocket + 1, ~0u, 0);
    execvpe(argv[0], argv.data(), variables.data());
    _exit(127);
  }
  close(ends[1]);
  control_ = ends[0];
  if (child_ < 0) problem_ = Error{fmt::format("fork: {}", std::strerror(errno))};
}

// It has ended, or does not answer: says why, from now on.
Error Interpreter::lost() {
  int status = 0;
  kill(child_, SIGKILL);
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  std::string said(kMostSaid, 0);
  const ssize_t n = pread(log_file_, said.data(), said.size(), 0);
  said.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (const std::size_t line = said.rfind('\n'); line != std::string::npos) said.erase(0, line + 1);
  const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
  problem_ = Error{missing ? fmt::format("{} could not be started", python_program())
                           : fmt::format("{} did not start: {}", python_program(), said)};
  return problem_;
}

Result<pid_t> Interpreter::fork_worker(const Worker& worker) {
  start();
  if (child_ < 0) return problem_;
  const std::string request = encode(protocol::ForkRequest{
      .folder = worker.folder, .build_folder = worker.build_folder, .settings = worker.settings});
  if (!send_with(control_, request, {worker.socket, worker.memory_file, worker.events, worker.log}))
    return lost();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(kStartSeconds);
  for (;;) {
    if (interrupted()) return Error{"interrupted"};
    if (std::chrono::steady_clock::now() > limit) return lost();
    pollfd waiting{control_, POLLIN, 0};
    if (poll(&waiting, 1, kGlance) <= 0) continue;
    char buffer[64];
    const ssize_t n = recv(control_, buffer, sizeof buffer - 1, 0);
    if (n <= 0) return lost();
    buffer[n] = 0;
    const pid_t worker_id = static_cast<pid_t>(std::strtol(buffer, nullptr, 10));
    if (worker_id <= 0) return lost();
    return worker_id;
  }
}

}  // namespace assay::subject
