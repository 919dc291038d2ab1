// Starting, limiting and ending the process, and waiting for its lines.
#include "subject/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/interrupt.h"
#include "protocol/protocol.h"
#include "subject/interpreter.h"
#include "subject/process.h"
#include "subject/process_clock.h"

namespace assay::subject {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kLongestReply = 1 << 20;
constexpr uint64_t kMostWritten = 64 << 20;  // bytes of any file that the worker writes
constexpr double kGrace = 2;                 // seconds that a call may continue after an error was reported
constexpr int kDying = 1000;                 // milliseconds to wait for a process to end
constexpr int kStall = 1500;                 // milliseconds for which all threads of the device may poll
constexpr int kMostThreads = 2000;           // of a worker: those of the device and of the subject
// In which a Python subject must be loaded; and of all that it compiles.
constexpr double kBuildSeconds = 180;

double machine_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double resident_bytes(pid_t pid) {
  std::istringstream statm(text_of(fmt::format("/proc/{}/statm", pid)));
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string signal_text(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (number == SIGXFSZ) return "it wrote more than the limit";
    if (number == SIGSYS) return "it made a system call that is not allowed";
    return fmt::format("killed by signal {} ({})", number, strsignal(number));
  }
  return fmt::format("the process ended with exit status {} in the middle of a call", WEXITSTATUS(status));
}

}  // namespace

double BuildTime::allowance(double seconds) {
  const double given = std::min(seconds, kBuildSeconds - spent_);
  spent_ += given;
  return given;
}

WorkerProcess::WorkerProcess(const contract::Contract& contract, const Subject& subject,
                             RunnerOptions options)
    : contract_(contract), subject_(subject), options_(std::move(options)) {
  if (options_.worker.empty()) options_.worker = program_folder() + "/assay-worker";
  if (options_.cudart.empty()) options_.cudart = fs::path(program_folder()).parent_path().string() + "/lib";
  if (options_.memory <= 0) options_.memory = machine_memory() * 2 / 3;
  const char* runtime = std::getenv("ASSAY_CUDA_RUNTIME");
  if (options_.cuda_runtime.empty() && runtime) options_.cuda_runtime = runtime;
}

void WorkerProcess::stop() {
  if (child_ > 0) {
    const pid_t session = child_;
    kill(child_, SIGKILL);
    reap();
    if (is_python()) kill_session(session);  // compilers that it had started
  }
  if (socket_ >= 0) close(socket_);
  events_.close();
  if (memory_) munmap(memory_, static_cast<std::size_t>(mapped_));
  if (memory_file_ >= 0) close(memory_file_);
  socket_ = memory_file_ = -1;
  memory_ = nullptr;
  mapped_ = 0;
  pending_.clear();
  folder_.reset();
}

void WorkerProcess::finish(double seconds) {
  if (child_ > 0 && socket_ >= 0) {
    shutdown(socket_, SHUT_RDWR);
    const auto begun = Clock::now();
    while (!has_ended() && std::chrono::duration<double>(Clock::now() - begun).count() < seconds)
      poll(nullptr, 0, kPollInterval);
  }
  stop();
}

bool WorkerProcess::has_ended() {
  if (child_ > 0 && waitpid(child_, nullptr, WNOHANG) == child_) child_ = -1;
  return child_ < 0;
}

bool WorkerProcess::send(const std::string& line) const {
  return protocol::send_line(socket_, line);
}

int WorkerProcess::reap() {
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return status;
}

std::vector<std::string> WorkerProcess::environment() const {
  std::vector<std::string> variables = {
      "PATH=/usr/bin:/bin", "HOME=" + folder_->path(), "TMPDIR=" + folder_->path(), "LANG=C.UTF-8",
      "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"};  // HostPoison of the worker
  if (options_.device == Device::Virtual) {
    variables.push_back("LD_LIBRARY_PATH=" + program(""));
    variables.push_back(fmt::format("{}={}", protocol::kSettingsVariable, encode(settings())));
  } else {
    const fs::path toolkit = fs::path(find_nvcc()).parent_path().parent_path();
    std::string path = fmt::format("{0}/lib64:{0}/lib", toolkit.string());
    if (!options_.cuda_runtime.empty()) {
      path = options_.cuda_runtime + ":" + path;
      // Where the virtual device stands in for a GPU, it is to be no more than that.
      protocol::Settings plain;
      plain.quiet = true;
      plain.seed = options_.stand_in_seed;
      variables.push_back(fmt::format("{}={}", protocol::kSettingsVariable, encode(plain)));
    }
    if (const char* own = std::getenv("LD_LIBRARY_PATH")) path += std::string(":") + own;
    variables.push_back("LD_LIBRARY_PATH=" + path);
    variables.push_back("CUDA_CACHE_DISABLE=1");
    variables.push_back("CUDA_MODULE_LOADING=EAGER");
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
      variables.push_back(fmt::format("CUDA_VISIBLE_DEVICES={}", visible));
    }
  }
  return variables;
}

protocol::Settings WorkerProcess::settings() const {
  protocol::Settings settings;
  settings.events = fmt::format("/proc/self/fd/{}", protocol::kEvents);
  settings.quiet = true;
  settings.report_code = is_python();
  settings.stall_milliseconds = kStall;
  settings.gpu = &kGpus[machine_.gpu];
  settings.checks = options_.checks;
  settings.record = options_.record;
  settings.report_launches = options_.report_launches;
  settings.precision_lines = options_.precision_lines;
  return settings;
}

protocol::WorkerSetup WorkerProcess::setup() const {
  const bool is_virtual = options_.device == Device::Virtual, is_ptx = !subject_.ptx.empty();
  return {.real_gpu = !is_virtual,
          .folder = folder_->path(),
          .is_ptx = is_ptx,
          .path = !is_ptx                                 ? program(kLibraryName)
                  : !options_.other_code.empty()          ? options_.other_code
                  : is_virtual && !subject_.image.empty() ? subject_.image
                                                          : subject_.ptx,
          .symbol = subject_.symbol,
          .is_kernel = subject_.launched,
          .returns_int = contract_.kernel.returns_int,
          .is_witnessed = !options_.witness.empty(),
          .clock = machine_.clock,
          .gpu = is_virtual ? 0 : machine_.gpu,
          .other_code = options_.other_code};
}

// The folder of a file of the problem's, where neither the contract nor the subject lies in it.
std::string WorkerProcess::hidden_with(const contract::PythonFunction& function) const {
  const fs::path file = fs::absolute(contract_.resolve(function.file)).lexically_normal();
  const std::string folder_of = file.parent_path().string() + "/";
  const bool shared = fs::absolute(contract_.path).lexically_normal().string().starts_with(folder_of) ||
                      subject_.python.starts_with(folder_of);
  return shared ? file.string() : file.parent_path().string();
}

// What says what is expected is not for a Python subject to read.
protocol::WorkerSetup WorkerProcess::python_setup() const {
  std::vector<std::string> hidden = options_.hidden;
  hidden.push_back(contract_.path);
  for (const contract::PythonFunction& function : {contract_.reference.python, contract_.generator})
    if (function) hidden.push_back(hidden_with(function));
  for (std::string& path : hidden) path = fs::absolute(path).lexically_normal().string();
  protocol::WorkerSetup setup;
  setup.folder = folder_->path();
  setup.path = subject_.python;
  setup.symbol = subject_.symbol;
  setup.is_python = true;
  setup.returns_outputs = contract_.kernel.returns_outputs;
  setup.default_stream = !contract_.require.concurrent;
  setup.build_folder = subject_.build_folder;
  setup.clock = machine_.clock;
  setup.hidden = std::move(hidden);
  return setup;
}

void WorkerProcess::become_worker(pid_t judge, int worker_socket, int worker_events,
                                  const std::string& program,
                                  const std::vector<std::string>& variables) const {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != judge) _exit(126);  // the judge died before prctl took effect
  personality(ADDR_NO_RANDOMIZE);      // the same addresses in the report of the same check
  const auto limit = [](auto resource, rlim_t most) {
    const rlimit value{most, most};
    setrlimit(resource, &value);
  };
  limit(RLIMIT_FSIZE, kMostWritten);
  limit(RLIMIT_CORE, 0);
  const int log = open(folder_->file("output").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int null = open("/dev/null", O_RDONLY);
  // Above the numbers they go to, so that neither overwrites the other.
  const int spare_socket = fcntl(worker_socket, F_DUPFD, 16), spare_file = fcntl(memory_file_, F_DUPFD, 16),
            spare_events = fcntl(worker_events, F_DUPFD, 16);
  dup2(null, 0);
  dup2(log, 1);
  dup2(log, 2);
  dup2(spare_socket, protocol::kSocket);
  dup2(spare_file, protocol::kMemoryFile);
  dup2(spare_events, protocol::kEvents);
  close_range(protocol::kEvents + 1, ~0u, 0);
  if (chdir(folder_->path().c_str()) != 0) _exit(126);
  std::vector<char*> env;
  for (const std::string& word : variables) env.push_back(const_cast<char*>(word.c_str()));
  env.push_back(nullptr);
  std::vector<char*> args;
  for (const std::string& word : options_.witness) args.push_back(const_cast<char*>(word.c_str()));
  args.push_back(const_cast<char*>(program.c_str()));
  args.push_back(nullptr);
  execve(args[0], args.data(), env.data());
  _exit(127);
}

// The program and its libraries by other names than their own: what a subject can learn of them from the
// loader holds no name of ours.
bool WorkerProcess::link_files() const {
  std::error_code error;
  fs::create_directory(program(""), error);
  const auto link = [&](const fs::path& file, const std::string& name) {
    if (!error) fs::create_symlink(fs::absolute(file), program(name), error);
  };
  link(options_.worker, "main");
  if (subject_.ptx.empty()) link(subject_.library, kLibraryName);
  if (error || options_.device != Device::Virtual) return !error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.cudart, error)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".so") != std::string::npos) link(entry.path(), name);
  }
  return !error;
}

std::string WorkerProcess::program(const std::string& name) const {
  return fmt::format("{}/{}/{}", folder_->path(), protocol::kProgramFolder, name);
}

// A worker that is ready; or why there is none.
Answer WorkerProcess::start() {
  const Answer forked = launch();
  return forked.outcome == CallOutcome::Ended ? await_ready() : forked;
}

// Starts one, which gets ready by itself.
Answer WorkerProcess::launch() {
  folder_ = std::make_unique<TemporaryFolder>("home");
  int ends[2], pipe_ends[2];
  memory_file_ = memfd_create("buffers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (folder_->path().empty() || memory_file_ < 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return {CallOutcome::Unavailable,
            fmt::format("a worker could not be prepared: {}", std::strerror(errno)),
            {}};
  }
  prctl(PR_SET_DUMPABLE, 0);  // other processes of the same user must not inspect the judge
  events_.open(pipe_ends[0]);
  fcntl(memory_file_, F_ADD_SEALS, F_SEAL_SHRINK);  // a worker that shrinks it would take the judge down
  const std::string problem =
      is_python() ? fork_interpreter(ends[1], pipe_ends[1]) : fork_worker(ends[1], pipe_ends[1]);
  close(ends[1]);
  close(pipe_ends[1]);
  socket_ = ends[0];
  if (!problem.empty()) return {CallOutcome::Unavailable, problem, {}};
  was_told_ = protocol::send_line(socket_, encode(is_python() ? python_setup() : setup()));
  return {};
}

Answer WorkerProcess::await_ready() {
  const double loading = is_python() ? kBuildSeconds : std::max(options_.timeout, options_.loading);
  Answer answer = was_told_ ? receive(loading) : died();
  if (answer.outcome == CallOutcome::Crashed)
    answer.error = fmt::format("while the subject was loaded: {}", answer.error);
  if (answer.outcome == CallOutcome::TimedOut && options_.device == Device::Cuda) {
    answer.outcome = CallOutcome::Unavailable;  // nothing of the subject has run
    answer.error = fmt::format("the GPU driver did not answer: {}; `assay doctor` may say why", answer.error);
  }
  if (answer.outcome != CallOutcome::Ended) return answer;
  const auto ready = protocol::decode_ready(answer.line);
  if (!ready) return {CallOutcome::Crashed, ready.error().text(), {}};
  if (ready->problem.empty()) {
    guarded_ &= ready->files_guarded;
    return answer;
  }
  // A library that was not built here may need others that this machine lacks: that says nothing about the kernel.
  const bool is_foreign = !subject_.library.empty() && subject_.files.empty();
  return {ready->subject_failed && !is_foreign ? CallOutcome::Crashed : CallOutcome::Unavailable,
          ready->problem,
          {}};
}

// Why there is no worker; empty: there is.
std::string WorkerProcess::fork_worker(int worker_socket, int worker_events) {
  const std::string worker = program("main");
  const auto variables = environment();
  const pid_t judge = getpid();
  if (!link_files()) return "the worker's folder could not be filled";
  child_ = fork();
  if (child_ == 0) become_worker(judge, worker_socket, worker_events, worker, variables);
  return child_ < 0 ? fmt::format("fork: {}", std::strerror(errno)) : "";
}

std::string WorkerProcess::fork_interpreter(int worker_socket, int worker_events) {
  const int log = open(folder_->file("output").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const auto forked = subject_.interpreter->fork_worker({.folder = folder_->path(),
                                                         .build_folder = subject_.build_folder,
                                                         .settings = encode(settings()),
                                                         .socket = worker_socket,
                                                         .memory_file = memory_file_,
                                                         .events = worker_events,
                                                         .log = log});
  close(log);
  if (!forked) return forked.error().text();
  child_ = *forked;
  return "";
}

bool WorkerProcess::grow(int64_t size) {
  if (size <= mapped_) return true;
  if (memory_) munmap(memory_, static_cast<std::size_t>(mapped_));
  memory_ = nullptr;
  mapped_ = 0;
  if (ftruncate(memory_file_, size) != 0) return false;
  void* at =
      mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, memory_file_, 0);
  if (at == MAP_FAILED) return false;
  memory_ = static_cast<std::byte*>(at);
  mapped_ = size;
  return true;
}

// The channel is closed: the process has ended, or closed it and goes on.
Answer WorkerProcess::died() {
  for (int waited = 0; waited < kDying; waited += kPollInterval) {
    int status = 0;
    if (waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      return {CallOutcome::Crashed, signal_text(status), {}, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
    }
    poll(nullptr, 0, kPollInterval);
  }
  return give_up(CallOutcome::Crashed, "the subject closed the channel to the judge");
}

Answer WorkerProcess::give_up(CallOutcome outcome, std::string why) {
  const pid_t session = child_;
  kill(child_, SIGKILL);
  reap();
  if (is_python()) kill_session(session);
  return {outcome, std::move(why), {}};
}

Answer WorkerProcess::receive(double timeout) {
  ProcessClock clock(child_);
  auto looked = Clock::now();
  for (;;) {
    while (auto line = pending_.take()) {
      const auto building = is_python() ? protocol::decode_building(*line) : std::nullopt;
      builds_.note(building && building->begins);
      if (!building) return {CallOutcome::Ended, "", std::move(*line), -1, clock.seconds()};
    }
    events_.read();
    pollfd waiting[2] = {{socket_, POLLIN, 0}, {events_.waiting_for(), POLLIN, 0}};
    poll(waiting, 2, kPollInterval);
    if (interrupted()) return give_up(CallOutcome::Unavailable, kInterrupted);
    if (waiting[0].revents == 0) {
      // After an error there is no need to wait for a call that does not end, in a deadlock after a race
      // say.
      if (events_.take_error()) timeout = std::min(timeout, clock.seconds() + kGrace);
      const double passed = std::chrono::duration<double>(Clock::now() - looked).count();
      looked = Clock::now();
      if (is_python() && (builds_.under_way() || has_children(child_))) timeout += builds_.allowance(passed);
      if (clock.seconds() > timeout)
        return give_up(CallOutcome::TimedOut, fmt::format("still running after {:.2g} s", timeout));
      if (clock.threads() > kMostThreads)
        return give_up(CallOutcome::Crashed, fmt::format("it started more than {} threads", kMostThreads));
      if (resident_bytes(child_) > options_.memory)
        return give_up(CallOutcome::TooLarge,
                       fmt::format("it held more than {:.1f} GB", options_.memory / 1e9));
      continue;
    }
    char buffer[65536];
    const ssize_t n = recv(socket_, buffer, sizeof buffer, 0);
    if (n <= 0) return died();
    pending_.append({buffer, static_cast<std::size_t>(n)});
    if (pending_.size() > kLongestReply)
      return give_up(CallOutcome::Crashed, "the worker flooded its replies");
  }
}

std::string WorkerProcess::output_tail() const {
  if (!folder_) return "";
  std::string text = text_of(folder_->file("output"));
  // A crashed interpreter lists where it was, the innermost function first.
  const size_t fatal = text.rfind("Fatal Python error: ");
  if (fatal != std::string::npos) {
    text = text.substr(fatal, 600);
    text = text.substr(0, text.rfind('\n')) + "\n…";
  } else if (text.size() > 400) {
    text = "…" + text.substr(text.size() - 400);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace assay::subject
