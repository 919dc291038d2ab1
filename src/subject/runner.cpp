// Runs trials in a worker process.
//
// The judge starts a worker (protocol/messages.h), writes the inputs of a trial into the shared memory file,
// sends a request and waits for the reply, reading the device's events meanwhile. The subject can do anything
// to the worker: crash it, hang, use all memory, write to its file descriptors. So the judge enforces time,
// memory and thread limits from outside, decodes every message with all checks, and takes a reply or event
// that cannot be the worker's own as a crash of the subject. After any failure the worker is killed, and the
// next trial starts a new one.
#include "subject/runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/temporary_folder.h"
#include "protocol/lines.h"
#include "protocol/messages.h"
#include "protocol/protocol.h"
#include "subject/event_pipe.h"
#include "subject/images.h"
#include "subject/interpreter.h"
#include "subject/process.h"
#include "subject/process_clock.h"
#include "trial/giant.h"

namespace assay::subject {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kLongestReply = 1 << 20;
constexpr uint64_t kMostWritten = 64 << 20;  // bytes of any file that the worker writes
constexpr int kPollInterval = 50;            // milliseconds between checks of a silent worker's limits
constexpr double kGrace = 2;                 // seconds that a call may continue after an error was reported
constexpr int kDying = 1000;                 // milliseconds to wait for a process to end
constexpr int kStall = 1500;                 // milliseconds for which all threads of the device may poll
constexpr int kMostThreads = 2000;           // of a worker: those of the device and of the subject
constexpr const char* kInterrupted = "interrupted";
constexpr double kBuildSeconds =
    180;                           // in which a Python subject must be loaded; and of all that it compiles
constexpr int kEarlierCalls = 64;  // before the one that is judged, in a trial of many calls
// Of a trial under load. Chosen: a call of a small kernel takes 0.1 to 0.2 ms with what runs beside it.
constexpr int kLoadRepeats = 400;
constexpr double kLoadSeconds = 0.5;

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

// The machine that a worker believes to run on, for as long as it lives.
struct Machine {
  uint8_t gpu = 0;
  int64_t clock = 0;
  bool operator==(const Machine&) const = default;
};

// Time that a Python subject spends on compiling is not the call's, as far as it goes.
class BuildTime {
 public:
  void note(bool begins) { under_way_ = begins; }
  bool under_way() const { return under_way_; }
  // How much of the seconds that have passed since the last time is given to the build.
  double allowance(double seconds) {
    const double given = std::min(seconds, kBuildSeconds - spent_);
    spent_ += given;
    return given;
  }
  double spent() const { return spent_; }

 private:
  bool under_way_ = false;
  double spent_ = 0;
};

// What came of waiting for the worker: a line, or why there is none.
struct Answer {
  CallOutcome outcome = CallOutcome::Ended;
  std::string error;
  std::string line;
  int exit_status = -1;  // of a process that ended by itself
};

// The GPU's memory for one process after another of this user.
class GpuTurn {
 public:
  GpuTurn() {
    constexpr int kMost = 5000;  // milliseconds; then it is tried all the same
    const std::string path = fmt::format("{}/assay-gpu-{}.lock", temporary_place(), getuid());
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int waited = 0;
         file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) != 0 && waited < kMost && !interrupted();
         waited += kPollInterval)
      poll(nullptr, 0, kPollInterval);
  }
  ~GpuTurn() {
    if (file_ >= 0) close(file_);
  }
  GpuTurn(const GpuTurn&) = delete;
  GpuTurn& operator=(const GpuTurn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace

struct Runner::Impl {
  const contract::Contract& contract;
  const Subject& subject;
  RunnerOptions options;

  pid_t child = -1;
  Machine machine;  // that it takes itself to be on
  int socket = -1;
  int memory_file = -1;
  int64_t mapped = 0;
  std::byte* memory = nullptr;
  std::unique_ptr<TemporaryFolder> folder;
  protocol::LineBuffer pending;  // received from the socket
  EventPipe events;
  BuildTime builds;
  std::optional<Answer> prepared;  // what came of starting a worker ahead of its first trial
  int64_t calls = 0;
  uint64_t request_id = 0;  // of the last request: no subject can guess it
  bool guarded = true;
  double sample_seconds = 1;
  bool was_told = false;       // the worker has been sent its setup
  bool launched = false;       // it gets ready, and has not said so yet
  bool goes_on = false;        // as the next requests say
  bool going_on = false;       // the worker repeats its last call
  bool died_going_on = false;  // … and ended; the next observation says so
  bool lost_going_on = false;  // … when the next request had come

  Impl(const contract::Contract& c, const Subject& s, RunnerOptions o)
      : contract(c), subject(s), options(std::move(o)) {
    if (options.worker.empty()) options.worker = program_folder() + "/assay-worker";
    if (options.cudart.empty()) options.cudart = fs::path(program_folder()).parent_path().string() + "/lib";
    if (options.memory <= 0) options.memory = machine_memory() * 2 / 3;
    const char* runtime = std::getenv("ASSAY_CUDA_RUNTIME");
    if (options.cuda_runtime.empty() && runtime) options.cuda_runtime = runtime;
  }
  ~Impl() { stop(); }

  void stop() {
    if (child > 0) {
      const pid_t session = child;
      kill(child, SIGKILL);
      reap();
      if (is_python()) kill_session(session);  // compilers that it had started
    }
    if (socket >= 0) close(socket);
    events.close();
    if (memory) munmap(memory, static_cast<std::size_t>(mapped));
    if (memory_file >= 0) close(memory_file);
    socket = memory_file = -1;
    memory = nullptr;
    mapped = calls = 0;
    going_on = launched = false;
    prepared.reset();
    pending.clear();
    folder.reset();
  }

  int reap() {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    child = -1;
    return status;
  }

  bool is_python() const { return !subject.python.empty(); }

  std::vector<std::string> environment() const {
    std::vector<std::string> variables = {
        "PATH=/usr/bin:/bin", "HOME=" + folder->path(), "TMPDIR=" + folder->path(), "LANG=C.UTF-8",
        "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"};  // HostPoison of the worker
    if (options.device == Device::Virtual) {
      variables.push_back("LD_LIBRARY_PATH=" + program(""));
      variables.push_back(fmt::format("{}={}", protocol::kSettingsVariable, encode(settings())));
    } else {
      const fs::path toolkit = fs::path(find_nvcc()).parent_path().parent_path();
      std::string path = fmt::format("{0}/lib64:{0}/lib", toolkit.string());
      if (!options.cuda_runtime.empty()) {
        path = options.cuda_runtime + ":" + path;
        // Where the virtual device stands in for a GPU, it is to be no more than that.
        protocol::Settings plain;
        plain.quiet = true;
        plain.seed = options.stand_in_seed;
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

  protocol::Settings settings() const {
    protocol::Settings settings;
    settings.events = fmt::format("/proc/self/fd/{}", protocol::kEvents);
    settings.quiet = true;
    settings.engine = protocol::EngineChoice::Interpret;  // the sandbox is closed before a kernel is hot
    settings.report_code = is_python();
    settings.stall_milliseconds = kStall;
    settings.gpu = &kGpus[machine.gpu];
    settings.checks = options.checks;
    settings.record = options.record;
    settings.report_launches = options.report_launches;
    settings.precision_lines = options.precision_lines;
    return settings;
  }

  protocol::WorkerSetup setup() const {
    const bool is_virtual = options.device == Device::Virtual, is_ptx = !subject.ptx.empty();
    return {.real_gpu = !is_virtual,
            .folder = folder->path(),
            .is_ptx = is_ptx,
            .path = is_ptx ? subject.ptx : program(kLibraryName),
            .symbol = subject.symbol,
            .is_kernel = subject.launched,
            .returns_int = contract.kernel.returns_int,
            .is_witnessed = !options.witness.empty(),
            .clock = is_virtual ? machine.clock : 0};
  }

  // The folder of a file of the problem's, where neither the contract nor the subject lies in it.
  std::string hidden_with(const contract::PythonFunction& function) const {
    const fs::path file = fs::absolute(contract.resolve(function.file)).lexically_normal();
    const std::string folder_of = file.parent_path().string() + "/";
    const bool shared = fs::absolute(contract.path).lexically_normal().string().starts_with(folder_of) ||
                        subject.python.starts_with(folder_of);
    return shared ? file.string() : file.parent_path().string();
  }

  // What says what is expected is not for a Python subject to read.
  protocol::WorkerSetup python_setup() const {
    std::vector<std::string> hidden = options.hidden;
    hidden.push_back(contract.path);
    for (const contract::PythonFunction& function : {contract.reference.python, contract.generator})
      if (function) hidden.push_back(hidden_with(function));
    for (std::string& path : hidden) path = fs::absolute(path).lexically_normal().string();
    protocol::WorkerSetup setup;
    setup.folder = folder->path();
    setup.path = subject.python;
    setup.symbol = subject.symbol;
    setup.is_python = true;
    setup.returns_outputs = contract.kernel.returns_outputs;
    setup.default_stream = !contract.require.concurrent;
    setup.build_folder = subject.build_folder;
    setup.clock = machine.clock;
    setup.hidden = std::move(hidden);
    return setup;
  }

  [[noreturn]] void become_worker(pid_t judge, int worker_socket, int worker_events,
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
    const int log = open(folder->file("output").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int null = open("/dev/null", O_RDONLY);
    // Above the numbers they go to, so that neither overwrites the other.
    const int spare_socket = fcntl(worker_socket, F_DUPFD, 16), spare_file = fcntl(memory_file, F_DUPFD, 16),
              spare_events = fcntl(worker_events, F_DUPFD, 16);
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    dup2(spare_socket, protocol::kSocket);
    dup2(spare_file, protocol::kMemoryFile);
    dup2(spare_events, protocol::kEvents);
    close_range(protocol::kEvents + 1, ~0u, 0);
    if (chdir(folder->path().c_str()) != 0) _exit(126);
    std::vector<char*> env;
    for (const std::string& word : variables) env.push_back(const_cast<char*>(word.c_str()));
    env.push_back(nullptr);
    std::vector<char*> args;
    for (const std::string& word : options.witness) args.push_back(const_cast<char*>(word.c_str()));
    args.push_back(const_cast<char*>(program.c_str()));
    args.push_back(nullptr);
    execve(args[0], args.data(), env.data());
    _exit(127);
  }

  // The program and its libraries by other names than their own: what a subject can learn of them from the
  // loader holds no name of ours.
  bool link_files() const {
    std::error_code error;
    fs::create_directory(program(""), error);
    const auto link = [&](const fs::path& file, const std::string& name) {
      if (!error) fs::create_symlink(fs::absolute(file), program(name), error);
    };
    link(options.worker, "main");
    if (subject.ptx.empty()) link(subject.library, kLibraryName);
    if (error || options.device != Device::Virtual) return !error;
    for (const fs::directory_entry& entry : fs::directory_iterator(options.cudart, error)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".so") != std::string::npos) link(entry.path(), name);
    }
    return !error;
  }

  std::string program(const std::string& name) const {
    return fmt::format("{}/{}/{}", folder->path(), protocol::kProgramFolder, name);
  }

  // A worker that is ready; or why there is none.
  Answer start() {
    const Answer forked = launch();
    return forked.outcome == CallOutcome::Ended ? await_ready() : forked;
  }

  // Starts one, which gets ready by itself.
  Answer launch() {
    folder = std::make_unique<TemporaryFolder>("home");
    int ends[2], pipe_ends[2];
    memory_file = memfd_create("buffers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (folder->path().empty() || memory_file < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || pipe2(pipe_ends, O_CLOEXEC) != 0) {
      return {CallOutcome::Unavailable,
              fmt::format("a worker could not be prepared: {}", std::strerror(errno)),
              {}};
    }
    prctl(PR_SET_DUMPABLE, 0);  // nobody of the same user may look into the judge
    events.open(pipe_ends[0]);
    fcntl(memory_file, F_ADD_SEALS, F_SEAL_SHRINK);  // a worker that shrinks it would take the judge down
    const std::string problem =
        is_python() ? fork_interpreter(ends[1], pipe_ends[1]) : fork_worker(ends[1], pipe_ends[1]);
    close(ends[1]);
    close(pipe_ends[1]);
    socket = ends[0];
    if (!problem.empty()) return {CallOutcome::Unavailable, problem, {}};
    was_told = protocol::send_line(socket, encode(is_python() ? python_setup() : setup()));
    return {};
  }

  Answer await_ready() {
    const double loading = is_python() ? kBuildSeconds : std::max(options.timeout, options.loading);
    Answer answer = was_told ? receive(loading) : died();
    if (answer.outcome == CallOutcome::Crashed)
      answer.error = fmt::format("while the subject was loaded: {}", answer.error);
    if (answer.outcome == CallOutcome::TimedOut && options.device == Device::Cuda) {
      answer.outcome = CallOutcome::Unavailable;  // nothing of the subject has run
      answer.error =
          fmt::format("the GPU's driver gave no answer: {}; `assay doctor` may say why", answer.error);
    }
    if (answer.outcome != CallOutcome::Ended) return answer;
    const auto ready = protocol::decode_ready(answer.line);
    if (!ready) return {CallOutcome::Crashed, ready.error().text(), {}};
    if (ready->problem.empty()) {
      guarded &= ready->files_guarded;
      return answer;
    }
    return {ready->subject_failed ? CallOutcome::Crashed : CallOutcome::Unavailable, ready->problem, {}};
  }

  // Why there is no worker; empty: there is.
  std::string fork_worker(int worker_socket, int worker_events) {
    const std::string worker = program("main");
    const auto variables = environment();
    const pid_t judge = getpid();
    if (!link_files()) return "the worker's folder could not be filled";
    child = fork();
    if (child == 0) become_worker(judge, worker_socket, worker_events, worker, variables);
    return child < 0 ? fmt::format("fork: {}", std::strerror(errno)) : "";
  }

  std::string fork_interpreter(int worker_socket, int worker_events) {
    const int log = open(folder->file("output").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const auto forked = subject.interpreter->fork_worker({.folder = folder->path(),
                                                          .build_folder = subject.build_folder,
                                                          .settings = encode(settings()),
                                                          .socket = worker_socket,
                                                          .memory_file = memory_file,
                                                          .events = worker_events,
                                                          .log = log});
    close(log);
    if (!forked) return forked.error().text();
    child = *forked;
    return "";
  }

  bool grow(int64_t size) {
    if (size <= mapped) return true;
    if (memory) munmap(memory, static_cast<std::size_t>(mapped));
    memory = nullptr;
    mapped = 0;
    if (ftruncate(memory_file, size) != 0) return false;
    void* at =
        mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
    if (at == MAP_FAILED) return false;
    memory = static_cast<std::byte*>(at);
    mapped = size;
    return true;
  }

  // The channel is closed: the process has ended, or closed it and goes on.
  Answer died() {
    for (int waited = 0; waited < kDying; waited += kPollInterval) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == child) {
        child = -1;
        return {CallOutcome::Crashed, signal_text(status), {}, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
      }
      poll(nullptr, 0, kPollInterval);
    }
    return give_up(CallOutcome::Crashed, "the subject closed the channel to the judge");
  }

  Answer give_up(CallOutcome outcome, std::string why) {
    const pid_t session = child;
    kill(child, SIGKILL);
    reap();
    if (is_python()) kill_session(session);
    return {outcome, std::move(why), {}};
  }

  Answer receive(double timeout) {
    ProcessClock clock(child);
    auto looked = Clock::now();
    for (;;) {
      while (auto line = pending.take()) {
        const auto building = is_python() ? protocol::decode_building(*line) : std::nullopt;
        builds.note(building && building->begins);
        if (!building) return {CallOutcome::Ended, "", std::move(*line)};
      }
      events.read();
      pollfd waiting[2] = {{socket, POLLIN, 0}, {events.waiting_for(), POLLIN, 0}};
      poll(waiting, 2, kPollInterval);
      if (interrupted()) return give_up(CallOutcome::Unavailable, kInterrupted);
      if (waiting[0].revents == 0) {
        // After an error there is no need to wait for a call that does not end, in a deadlock after a race
        // say.
        if (events.take_error()) timeout = std::min(timeout, clock.seconds() + kGrace);
        const double passed = std::chrono::duration<double>(Clock::now() - looked).count();
        looked = Clock::now();
        if (is_python() && (builds.under_way() || has_children(child))) timeout += builds.allowance(passed);
        if (clock.seconds() > timeout)
          return give_up(CallOutcome::TimedOut, fmt::format("no end after {:.2g} s", timeout));
        if (clock.threads() > kMostThreads)
          return give_up(CallOutcome::Crashed, fmt::format("it started more than {} threads", kMostThreads));
        if (resident_bytes(child) > options.memory)
          return give_up(CallOutcome::TooLarge,
                         fmt::format("it held more than {:.1f} GB", options.memory / 1e9));
        continue;
      }
      char buffer[65536];
      const ssize_t n = recv(socket, buffer, sizeof buffer, 0);
      if (n <= 0) return died();
      pending.append({buffer, static_cast<std::size_t>(n)});
      if (pending.size() > kLongestReply)
        return give_up(CallOutcome::Crashed, "the worker flooded its replies");
    }
  }

  void take_events(Observation& observation) {
    events.read();
    observation.events = events.take_events();
    if (options.device != Device::Virtual) return;  // launches are not seen
    observation.recorded = events.take_recorded(observation.recorded_left_out);
    observation.kernels = events.take_kernels();
    observation.last_launch = events.take_last_launch();
    observation.code = events.take_code();
    events.take_error();
  }

  std::string output_tail() const {
    if (!folder) return "";
    std::string text = text_of(folder->file("output"));
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

  protocol::Request request_for(const trial::Trial& trial, const MemoryFileLayout& layout) {
    if (getrandom(&request_id, sizeof request_id, 0) < 0) ++request_id;
    const trial::Condition& condition = trial.condition;
    protocol::Request request{.id = request_id,
                              .memory_bytes = mapped,
                              .seed = condition.schedule,
                              .ordered = condition.ordered,
                              .others_late = condition.others_late,
                              .moved = condition.moved,
                              .guard_begin = trial.seed % 2 == 1,
                              .cycles = condition.cycles,
                              .shift = condition.shift,
                              .host_poison = condition.host_poison,
                              .new_content = trial::pattern(condition.poison),
                              .earlier_calls = condition.looped ? kEarlierCalls : 0,
                              .calls = {}};
    if (options.device == Device::Cuda && !trial.sampled) {
      request.goes_on = goes_on && !condition.loaded;
      if (condition.loaded)
        request.load = protocol::LoadRequest{
            .seed = trial.seed, .repeats = kLoadRepeats, .seconds = kLoadSeconds, .graph = !condition.fresh};
    }
    if (trial.sampled)
      request.sample = protocol::SampleRequest{.seed = trial.seed,
                                               .blocks = kSampledBlocks,
                                               .seconds = sample_seconds,
                                               .shares = trial::telling_shares(contract, trial.shape)};
    for (const CallPlan& plan : layout.calls) request.calls.push_back(plan.request);
    return request;
  }

  // One reply per request, with the request's number, and the channel of the device's events must still be
  // open. Otherwise the subject has written to the judge itself.
  Answer read_reply(const std::string& line, protocol::Reply& reply) {
    auto decoded = protocol::decode_reply(line);
    if (!decoded) return give_up(CallOutcome::Crashed, decoded.error().text());
    reply = std::move(*decoded);
    events.read();
    if (reply.id != request_id || !pending.empty())
      return give_up(CallOutcome::Crashed, "the subject sent a reply of its own to the judge");
    if (events.has_ended())
      return give_up(CallOutcome::Crashed, "the subject closed the channel of the device's events");
    return {};
  }

  // A worker on this machine; false: there is none, and the observation says why.
  bool has_worker(const Machine& wanted, Observation& observation) {
    if (interrupted()) {
      observation.outcome = CallOutcome::Unavailable;
      observation.error = kInterrupted;
      return false;
    }
    if (going_on && waitpid(child, nullptr, WNOHANG) == child) {
      child = -1;
      died_going_on = true;
      stop();
    }
    if (child >= 0 && !launched && (options.device != Device::Virtual || wanted == machine)) return true;
    const bool is_prepared = prepared && wanted == machine;
    const bool is_launched = std::exchange(launched, false);
    if (!is_prepared && !is_launched) stop();
    machine = wanted;
    const Answer started = is_launched ? await_ready() : is_prepared ? *prepared : start();
    prepared.reset();
    if (started.outcome == CallOutcome::Ended) return true;
    observation.outcome = started.outcome;
    observation.error = started.error;
    take_events(observation);
    stop();
    return false;
  }

  // Makes the calls; false: they did not end, and the observation says why.
  bool exchange(const protocol::Request& request, protocol::Reply& reply, Observation& observation) {
    Answer answer = protocol::send_line(socket, encode(request)) ? receive(options.timeout) : died();
    if (answer.outcome == CallOutcome::Ended) answer = read_reply(answer.line, reply);
    take_events(observation);
    if (events.is_forged() && answer.outcome == CallOutcome::Ended)
      answer = give_up(CallOutcome::Crashed, "the subject wrote into the channel of the device's events");
    observation.outcome = answer.outcome;
    observation.error = answer.error;
    lost_going_on = going_on && answer.exit_status == protocol::kDeviceLost;
    going_on = request.goes_on && answer.outcome == CallOutcome::Ended;
    if (answer.outcome == CallOutcome::Ended) {
      calls += static_cast<int64_t>(request.calls.size());
      return true;
    }
    const std::string said = interrupted() ? "" : output_tail();
    if (!said.empty()) observation.error += "; it said: " + said;
    stop();
    return false;
  }

  // Room for the images of a call; false: there is none, and the observation says so.
  bool has_room(int64_t bytes, Observation& observation) {
    if (grow(bytes)) return true;
    observation.outcome = CallOutcome::TooLarge;
    observation.error = "the shared memory could not be made";
    stop();
    return false;
  }

  Observation observe(const trial::Trial& trial, const MemoryFileLayout& layout) {
    Observation observation = observe_once(trial, layout);
    if (!std::exchange(lost_going_on, false)) return observation;
    died_going_on = true;  // no fault of this trial's
    return observe_once(trial, layout);
  }

  Observation observe_once(const trial::Trial& trial, const MemoryFileLayout& layout) {
    Observation observation;
    protocol::Reply reply;
    if (!has_worker({trial.condition.gpu, trial.condition.clock}, observation) ||
        !has_room(layout.size, observation))
      return observation;
    write_images(layout, trial, memory);
    if (exchange(request_for(trial, layout), reply, observation))
      take_reply(reply, trial, layout, observation);
    return observation;
  }

  // One call of which nothing is copied, in either direction: all buffers have the same empty image.
  Observation record(MemoryFileLayout& layout) {
    Observation observation;
    protocol::Reply reply;
    trial::Trial trial;
    trial.condition.ordered = false;
    int64_t largest = 0;
    for (protocol::BufferRequest& buffer : layout.calls.front().request.buffers) {
      buffer.is_input = true;  // not marked as undefined, which would take time
      buffer.in = buffer.out = 0;
      buffer.parts = {{0, 0}};
      largest = std::max(largest, buffer.bytes);
    }
    if (has_worker({}, observation) && has_room(largest, observation) &&
        exchange(request_for(trial, layout), reply, observation) && !failed(reply, observation))
      for (const int returned : reply.returned) observation.calls.push_back({.returned = returned});
    return observation;
  }

  // A real GPU is shared with others: what the worker cannot allocate before the call is nobody's fault.
  bool is_out_of_memory(const protocol::CudaFailure& failure) const {
    constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation
    return options.device == Device::Cuda && failure.code == kOutOfMemory && failure.is_ours;
  }

  // Whether a call itself failed; then the process is of no further use.
  bool failed(const protocol::Reply& reply, Observation& observation) {
    if (reply.python) {
      observation.outcome = CallOutcome::PythonFailed;
      observation.error = reply.python->text;
      observation.python = reply.python;
    } else if (reply.failure && is_out_of_memory(*reply.failure)) {
      observation.outcome = CallOutcome::NoDeviceMemory;
      observation.error =
          "the GPU has no free memory for the call's buffers; end other processes on it (nvidia-smi lists "
          "them)";
    } else if (reply.failure) {
      observation.outcome = CallOutcome::DeviceError;
      observation.error_code = reply.failure->code;
      observation.error =
          fmt::format("{} ({}) from {}", reply.failure->name, reply.failure->text, reply.failure->stage);
    } else {
      return false;
    }
    stop();
    return true;
  }

  void take_reply(const protocol::Reply& reply, const trial::Trial& trial, const MemoryFileLayout& layout,
                  Observation& observation) {
    observation.seconds = reply.seconds;
    observation.sample = reply.sample;
    observation.load = reply.load;
    observation.buffers = reply.buffers;
    observation.busy_seconds = reply.busy;
    observation.repeats = reply.gone_on ? reply.gone_on->repeats : 0;
    observation.repeats_fail =
        (reply.gone_on && reply.gone_on->differs) || std::exchange(died_going_on, false);
    if (failed(reply, observation)) return;
    for (std::size_t i = 0; i < layout.calls.size(); ++i) {
      observation.calls.push_back(read_images(layout.calls[i], trial, memory));
      if (i < reply.returned.size()) observation.calls.back().returned = reply.returned[i];
    }
  }
};

Runner::Runner(const contract::Contract& contract, const Subject& subject, RunnerOptions options)
    : impl_(std::make_unique<Impl>(contract, subject, std::move(options))) {}
Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;

Observation Runner::run(const trial::Trial& trial, const contract::Bindings& first,
                        const contract::Bindings* second) {
  std::vector<const contract::Bindings*> bindings = {&first};
  if (second) bindings.push_back(second);
  const int64_t guard = impl_->options.device == Device::Virtual ? 0 : 4096;
  const auto layout = lay_out(impl_->contract, trial, bindings, guard);
  if (!layout) {
    Observation observation;
    observation.outcome = CallOutcome::Unavailable;
    observation.error = layout.error().text();
    return observation;
  }
  if (trial.condition.fresh) restart();
  take_spare();
  // Tensors that need most of a GPU's memory wait for their turn.
  std::optional<GpuTurn> turn;
  if (trial.sampled && impl_->options.device == Device::Cuda) turn.emplace();
  Observation observation = impl_->observe(trial, *layout);
  // A call that could not be captured into a graph may have left anything behind.
  if (observation.load && !trial.condition.fresh) restart();
  if (observation.outcome != CallOutcome::Unavailable) keep_spare();
  return observation;
}

// On a real GPU it takes a third of a second until a process is ready: the next one gets ready while this one works.
void Runner::keep_spare() {
  const RunnerOptions& options = impl_->options;
  if (options.device != Device::Cuda || !options.witness.empty() || impl_->is_python() || interrupted())
    return;
  if (!spare_) spare_ = std::make_unique<Impl>(impl_->contract, impl_->subject, options);
  if (spare_->child >= 0) return;
  spare_->launched = spare_->launch().outcome == CallOutcome::Ended;
  if (!spare_->launched) spare_->stop();
}

void Runner::take_spare() {
  if (impl_->child >= 0 || !spare_ || spare_->child < 0) return;
  spare_->options.timeout = impl_->options.timeout;
  spare_->goes_on = impl_->goes_on;
  spare_->sample_seconds = impl_->sample_seconds;
  spare_->died_going_on = std::exchange(impl_->died_going_on, false);
  spare_->guarded &= impl_->guarded;
  std::swap(impl_, spare_);
}

void Runner::prepare() {
  if (!impl_->is_python() || interrupted()) return;
  impl_->stop();
  impl_->machine = {};
  impl_->prepared = impl_->start();
}

Observation Runner::record(const contract::Bindings& bindings, const trial::Condition& condition) {
  trial::Trial trial;
  trial.condition = condition;
  auto layout = lay_out(impl_->contract, trial, {&bindings}, 0);
  if (layout) return impl_->record(*layout);
  Observation observation;
  observation.outcome = CallOutcome::Unavailable;
  observation.error = layout.error().text();
  return observation;
}

void Runner::finish(double seconds) {
  if (impl_->child > 0 && impl_->socket >= 0) {
    shutdown(impl_->socket, SHUT_RDWR);
    const auto begun = Clock::now();
    while (impl_->child > 0 && std::chrono::duration<double>(Clock::now() - begun).count() < seconds) {
      if (waitpid(impl_->child, nullptr, WNOHANG) == impl_->child) impl_->child = -1;
      if (impl_->child > 0) poll(nullptr, 0, kPollInterval);
    }
  }
  impl_->stop();
}

void Runner::restart() {
  impl_->stop();
}
std::vector<pid_t> Runner::processes() const {
  const auto& interpreter = impl_->subject.interpreter;
  return {std::max(impl_->child, 0), interpreter ? interpreter->process() : 0};
}
int64_t Runner::calls_in_process() const {
  return impl_->calls;
}
bool Runner::files_guarded() const {
  return impl_->guarded;
}
double Runner::build_seconds() const {
  return impl_->builds.spent();
}
void Runner::set_sample_seconds(double seconds) {
  impl_->sample_seconds = seconds;
}
void Runner::set_goes_on(bool goes_on) {
  impl_->goes_on = goes_on;
}
void Runner::set_timeout(double seconds) {
  impl_->options.timeout = seconds;
}

}  // namespace assay::subject
