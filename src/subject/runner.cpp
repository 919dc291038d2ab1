#include "subject/runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
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
#include "subject/images.h"
#include "subject/process.h"
#include "subject/protocol.h"
#include "subject/pulse.h"

namespace assay::subject {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kLongestReply = 1 << 20;
constexpr uint64_t kMostWritten = 64 << 20;  // bytes of any file that the worker writes
constexpr int kGlance = 50;                  // milliseconds between looks at a worker that says nothing
constexpr double kGrace = 2;                 // seconds that a call may go on after an error was seen
constexpr int kDying = 1000;                 // … that the end of a process may take
constexpr int kStall = 1500;                 // milliseconds for which all threads of the device may poll
constexpr int kMostThreads = 2000;           // of a worker: those of the device and of the subject
constexpr const char* kInterrupted = "interrupted";
constexpr int kEarlierCalls = 64;            // before the one that is looked at, where a trial makes many
constexpr std::size_t kMostEvents = 1000;
constexpr std::size_t kMostEventBytes = 16 << 20;

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
    if (number == SIGSYS) return "it tried what a subject may not";
    return fmt::format("killed by signal {} ({})", number, strsignal(number));
  }
  return fmt::format("the process ended with exit status {} in the middle of a call", WEXITSTATUS(status));
}

// What a process is told of where it runs, for as long as it lives.
struct Machine {
  uint8_t gpu = 0;
  int64_t clock = 0;
  bool operator==(const Machine&) const = default;
};

struct Reply {
  Outcome outcome = Outcome::Ended;
  std::string error;
  Json json;
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
  std::string pending;        // received, not yet a whole line
  int events = -1;            // the read end of the pipe
  std::string heard;          // from it
  std::size_t looked_at = 0;  // of that
  bool deaf = false;          // the worker's end is closed, though the worker lives
  bool forged = false;        // something that is no event came through it
  int64_t calls = 0;
  uint64_t request_id = 0;  // of the last request: no subject can guess it
  bool guarded = true;

  Impl(const contract::Contract& c, const Subject& s, RunnerOptions o)
      : contract(c), subject(s), options(std::move(o)) {
    if (options.worker.empty()) options.worker = program_folder() + "/assay-worker";
    if (options.cudart.empty()) options.cudart = fs::path(program_folder()).parent_path().string() + "/lib";
    if (options.memory <= 0) options.memory = machine_memory() * 2 / 3;
  }
  ~Impl() { stop(); }

  void stop() {
    if (child > 0) {
      kill(child, SIGKILL);
      reap();
    }
    if (socket >= 0) close(socket);
    if (events >= 0) close(events);
    if (memory) munmap(memory, static_cast<std::size_t>(mapped));
    if (memory_file >= 0) close(memory_file);
    socket = memory_file = events = -1;
    heard.clear();
    looked_at = 0;
    deaf = forged = false;
    memory = nullptr;
    mapped = calls = 0;
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

  std::vector<std::string> environment() const {
    std::vector<std::string> variables = {"PATH=/usr/bin:/bin", "HOME=" + folder->path(),
                                          "TMPDIR=" + folder->path(), "LANG=C.UTF-8",
                                          "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"};  // HostPoison of the worker
    if (options.device == Device::Virtual) {
      variables.push_back("LD_LIBRARY_PATH=" + program(""));
      variables.push_back(fmt::format("ASSAY_REPORT=/proc/self/fd/{}", kEvents));
      variables.push_back("ASSAY_QUIET=1");
      variables.push_back(fmt::format("ASSAY_STALL_MS={}", kStall));
      variables.push_back(fmt::format("ASSAY_GPU={}", kGpus[machine.gpu].id));
      if (!options.precision_lines.empty())
        variables.push_back("ASSAY_PRECISION_LINES=" + options.precision_lines);
      if (options.record) variables.push_back("ASSAY_RECORD=1");
      variables.push_back(fmt::format("ASSAY_CHECK={}", options.record      ? "none"
                                                        : options.precision ? "precision"
                                                        : options.checked ? "memory,init,races,streams,sync"
                                                                          : "none"));
    } else {
      const fs::path toolkit = fs::path(find_nvcc()).parent_path().parent_path();
      std::string path = fmt::format("{0}/lib64:{0}/lib", toolkit.string());
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

  std::vector<std::string> arguments() const {
    return {program("main"),
            options.device == Device::Virtual ? "virtual" : "cuda",
            folder->path(),
            subject.ptx.empty() ? "library" : "ptx",
            subject.ptx.empty() ? program(kLibraryName) : subject.ptx,
            subject.symbol,
            subject.launched ? "launch" : "call",
            contract.kernel.returns_int ? "int" : "void",
            std::to_string(options.device == Device::Virtual ? machine.clock : 0)};
  }

  [[noreturn]] void become_worker(pid_t judge, int worker_socket, int worker_events,
                                  const std::vector<std::string>& argv,
                                  const std::vector<std::string>& variables) const {
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != judge) _exit(126);  // it died before it could be told of
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
    dup2(spare_socket, kSocket);
    dup2(spare_file, kMemoryFile);
    dup2(spare_events, kEvents);
    close_range(kEvents + 1, ~0u, 0);
    if (chdir(folder->path().c_str()) != 0) _exit(126);
    std::vector<char*> args, env;
    for (const std::string& word : argv) args.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : variables) env.push_back(const_cast<char*>(word.c_str()));
    args.push_back(nullptr);
    env.push_back(nullptr);
    execve(args[0], args.data(), env.data());
    _exit(127);
  }

  // The program and its libraries by other names than their own: what the loader tells a subject of them, and
  // what it can see of its command line, holds no name of ours.
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
    return fmt::format("{}/{}/{}", folder->path(), kProgramFolder, name);
  }

  Reply start() {
    folder = std::make_unique<TemporaryFolder>("home");
    int ends[2], pipe_ends[2];
    memory_file = memfd_create("buffers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (folder->path().empty() || memory_file < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || pipe2(pipe_ends, O_CLOEXEC) != 0) {
      return {
          Outcome::Unavailable, fmt::format("a worker could not be prepared: {}", std::strerror(errno)), {}};
    }
    prctl(PR_SET_DUMPABLE, 0);  // nobody of the same user may look into the judge
    events = pipe_ends[0];
    fcntl(events, F_SETFL, O_NONBLOCK);
    fcntl(memory_file, F_ADD_SEALS, F_SEAL_SHRINK);  // a worker that shrinks it would take the judge down
    const auto argv = arguments(), variables = environment();
    const pid_t judge = getpid();
    if (!link_files()) return {Outcome::Unavailable, "the worker's folder could not be filled", {}};
    child = fork();
    if (child == 0) become_worker(judge, ends[1], pipe_ends[1], argv, variables);
    close(ends[1]);
    close(pipe_ends[1]);
    socket = ends[0];
    if (child < 0) return {Outcome::Unavailable, fmt::format("fork: {}", std::strerror(errno)), {}};
    Reply reply = receive(std::max(options.timeout, 30.0));
    if (reply.outcome == Outcome::Crashed) {
      reply.error = fmt::format("while the subject was loaded: {}", reply.error);
      return reply;
    }
    if (reply.outcome == Outcome::Ended) guarded &= reply.json.value("files_guarded", true);
    if (reply.outcome != Outcome::Ended || reply.json.value("ready", false)) return reply;
    const bool ours = reply.json.value("unavailable", false);
    return {ours ? Outcome::Unavailable : Outcome::Crashed,
            reply.json.value("text", "the worker did not start"),
            {}};
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
  Reply died() {
    for (int waited = 0; waited < kDying; waited += kGlance) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == child) {
        child = -1;
        return {Outcome::Crashed, signal_text(status), {}};
      }
      poll(nullptr, 0, kGlance);
    }
    return give_up(Outcome::Crashed, "the subject closed the channel to the judge");
  }

  Reply give_up(Outcome outcome, std::string why) {
    kill(child, SIGKILL);
    reap();
    return {outcome, std::move(why), {}};
  }

  bool send(const Json& request) {
    const std::string line = request.dump() + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t n = ::send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }

  Reply receive(double timeout) {
    Pulse pulse(child);
    for (;;) {
      if (const std::size_t line = pending.find('\n'); line != std::string::npos) {
        Json json = Json::parse(pending.substr(0, line), nullptr, false);
        pending.erase(0, line + 1);
        if (json.is_object()) return {Outcome::Ended, "", std::move(json)};
        return give_up(Outcome::Crashed, "the worker sent something that is no reply");
      }
      listen();
      pollfd waiting[2] = {{socket, POLLIN, 0}, {deaf ? -1 : events, POLLIN, 0}};
      poll(waiting, 2, kGlance);
      if (interrupted()) return give_up(Outcome::Unavailable, kInterrupted);
      if (waiting[0].revents == 0) {
        // What was seen is seen, whether or not the call ends: a deadlock after a race need not be sat out.
        if (heard_error()) timeout = std::min(timeout, pulse.seconds() + kGrace);
        if (pulse.seconds() > timeout)
          return give_up(Outcome::TimedOut, fmt::format("no end after {:.2g} s", timeout));
        if (pulse.threads() > kMostThreads)
          return give_up(Outcome::Crashed, fmt::format("it started more than {} threads", kMostThreads));
        if (resident_bytes(child) > options.memory)
          return give_up(Outcome::TooLarge, fmt::format("it held more than {:.1f} GB", options.memory / 1e9));
        continue;
      }
      char buffer[65536];
      const ssize_t n = recv(socket, buffer, sizeof buffer, 0);
      if (n <= 0) return died();
      pending.append(buffer, static_cast<std::size_t>(n));
      if (pending.size() > kLongestReply) return give_up(Outcome::Crashed, "the worker flooded its replies");
    }
  }

  // Whether a new line of the device's tells of an error.
  bool heard_error() {
    bool error = false;
    for (std::size_t end; (end = heard.find('\n', looked_at)) != std::string::npos; looked_at = end + 1) {
      const Event event = Event::parse(heard.begin() + static_cast<std::ptrdiff_t>(looked_at),
                                       heard.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
      if (!event.is_object()) continue;
      const auto sighting = event.find("finding");
      const Event& told = sighting != event.end() && sighting->is_object() ? *sighting : event;
      const auto text = [&](const char* key) {
        const auto it = told.find(key);
        return it != told.end() && it->is_string() ? it->get<std::string>() : std::string();
      };
      const std::string severity = text("severity");
      error |= !text("kind").empty() && severity != "warning" && severity != "note";
    }
    return error;
  }

  // Takes what the pipe holds, so that nobody waits for it to empty.
  void listen() {
    char buffer[65536];
    while (events >= 0 && !deaf) {
      const ssize_t n = read(events, buffer, sizeof buffer);
      if (n < 0) return;
      if (n == 0) deaf = true;
      if (heard.size() < kMostEventBytes) heard.append(buffer, static_cast<std::size_t>(n));
    }
  }

  // Events are JSON lines, and the device writes no others.
  void read_events(Observation& observation) {
    if (options.device != Device::Virtual) return;
    listen();
    observation.kernels.emplace();
    std::size_t at = 0;
    for (std::size_t end; (end = heard.find('\n', at)) != std::string::npos; at = end + 1) {
      Event event = Event::parse(heard.begin() + static_cast<std::ptrdiff_t>(at),
                                 heard.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
      forged |= !event.is_object();
      if (event.is_object() && event.value("event", Event()) == "launch" && event["kernel"].is_string())
        observation.kernels->insert(event["kernel"].get<std::string>());
      if (event.is_object() && observation.events.size() < kMostEvents)
        observation.events.push_back(std::move(event));
    }
    heard.erase(0, at);
    looked_at = 0;
  }

  std::string output_tail() const {
    if (!folder) return "";
    std::string text = text_of(folder->file("output"));
    if (text.size() > 400) text = "…" + text.substr(text.size() - 400);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  // One reply a request, with the request's number; and the device's events must still come.
  void reject_forgery(Reply& reply) {
    const bool answers = reply.json.value("id", uint64_t{0}) == request_id && pending.empty();
    listen();
    if (!answers) reply = give_up(Outcome::Crashed, "the subject sent a reply of its own to the judge");
    if (answers && deaf && options.device == Device::Virtual)
      reply = give_up(Outcome::Crashed, "the subject closed the channel of the device's events");
  }

  Observation observe(const trial::Trial& trial, const Layout& layout) {
    Observation observation;
    if (interrupted()) {
      observation.outcome = Outcome::Unavailable;
      observation.error = kInterrupted;
      return observation;
    }
    const Machine wanted{trial.condition.gpu, trial.condition.clock};
    if (child < 0 || (options.device == Device::Virtual && wanted != machine)) {
      stop();
      machine = wanted;
      const Reply started = start();
      if (started.outcome != Outcome::Ended) {
        observation.outcome = started.outcome;
        observation.error = started.error;
        read_events(observation);
        stop();
        return observation;
      }
    }
    Reply reply{Outcome::TooLarge, "the shared memory could not be made", {}};
    if (grow(layout.size)) {
      write_images(layout, trial, memory);
      if (getrandom(&request_id, sizeof request_id, 0) < 0) ++request_id;
      Json request = {{"id", request_id},
                      {"size", mapped},
                      {"seed", trial.condition.schedule},
                      {"ordered", trial.condition.ordered},
                      {"others_late", trial.condition.others_late},
                      {"moved", trial.condition.moved},
                      {"cycles", trial.condition.cycles},
                      {"shift", trial.condition.shift},
                      {"host_poison", trial.condition.host_poison},
                      {"earlier", trial.condition.looped ? kEarlierCalls : 0},
                      {"calls", Json::array()}};
      for (const CallPlan& plan : layout.calls) request["calls"].push_back(plan.request);
      reply = send(request) ? receive(options.timeout) : died();
      if (reply.outcome == Outcome::Ended) reject_forgery(reply);
    }
    read_events(observation);
    if (forged && reply.outcome == Outcome::Ended)
      reply = give_up(Outcome::Crashed, "the subject wrote into the channel of the device's events");
    observation.outcome = reply.outcome;
    observation.error = reply.error;
    if (reply.outcome != Outcome::Ended) {
      const std::string said = interrupted() ? "" : output_tail();
      if (!said.empty()) observation.error += "; it said: " + said;
      stop();
      return observation;
    }
    calls += static_cast<int64_t>(layout.calls.size());
    read_reply(reply.json, trial, layout, observation);
    return observation;
  }

  // One call of which nothing is copied, there or back.
  Observation record(Layout& layout) {
    Observation observation;
    if (child < 0) {
      stop();
      const Reply started = start();
      observation.outcome = started.outcome;
      observation.error = started.error;
      if (started.outcome != Outcome::Ended || !grow(sysconf(_SC_PAGESIZE))) return observation;
      read_events(observation);
      observation.events.clear();
    }
    if (getrandom(&request_id, sizeof request_id, 0) < 0) ++request_id;
    Json& call = layout.calls.front().request;
    for (Json& buffer : call["buffers"]) {
      buffer["data"] = true;
      buffer["parts"] = Json::array();
    }
    const Json request = {{"id", request_id},   {"size", mapped},  {"seed", 0},
                          {"ordered", false},   {"others_late", false}, {"moved", false},
                          {"calls", Json::array({call})}};
    Reply reply = send(request) ? receive(options.timeout) : died();
    if (reply.outcome == Outcome::Ended) reject_forgery(reply);
    read_events(observation);
    observation.outcome = reply.outcome;
    observation.error = reply.error;
    if (reply.outcome != Outcome::Ended || forged) {
      stop();
      if (observation.outcome == Outcome::Ended) observation.outcome = Outcome::Crashed;
      return observation;
    }
    ++calls;
    observation.error_code = reply.json.value("error", 0);
    observation.calls.emplace_back();
    const Json returned = reply.json.value("returned", Json::array());
    if (!returned.empty() && returned[0].is_number_integer()) observation.calls[0].returned = returned[0];
    if (observation.error_code == 0) return observation;
    observation.outcome = Outcome::DeviceError;
    observation.error = fmt::format("{} from {}", reply.json.value("name", "an error"),
                                    reply.json.value("stage", "the call"));
    stop();
    return observation;
  }

  void read_reply(const Json& json, const trial::Trial& trial, const Layout& layout,
                  Observation& observation) {
    observation.seconds = json.value("seconds", 0.0);
    observation.error_code = json.value("error", 0);
    if (observation.error_code != 0) {
      observation.outcome = Outcome::DeviceError;
      observation.error = fmt::format("{} ({}) from {}", json.value("name", "an error"),
                                      json.value("text", ""), json.value("stage", "the call"));
      stop();  // a context that failed once is of no further use
      return;
    }
    const Json returned = json.value("returned", Json::array());
    for (std::size_t i = 0; i < layout.calls.size(); ++i) {
      observation.calls.push_back(read_images(layout.calls[i], trial, memory));
      if (i < returned.size() && returned[i].is_number_integer())
        observation.calls.back().returned = returned[i];
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
    observation.outcome = Outcome::Unavailable;
    observation.error = layout.error().text();
    return observation;
  }
  if (trial.condition.fresh) restart();
  try {
    return impl_->observe(trial, *layout);
  } catch (const Json::exception&) {  // a field of another type than it should be
    impl_->stop();
    Observation observation;
    observation.outcome = Outcome::Crashed;
    observation.error = "the worker sent something that is no reply";
    return observation;
  }
}

Observation Runner::record(const contract::Bindings& bindings) {
  auto layout = lay_out(impl_->contract, trial::Trial{}, {&bindings}, 0);
  if (layout) return impl_->record(*layout);
  Observation observation;
  observation.outcome = Outcome::Unavailable;
  observation.error = layout.error().text();
  return observation;
}

void Runner::restart() {
  impl_->stop();
}
int64_t Runner::calls_in_process() const {
  return impl_->calls;
}
bool Runner::files_guarded() const {
  return impl_->guarded;
}
void Runner::set_timeout(double seconds) {
  impl_->options.timeout = seconds;
}

}  // namespace assay::subject
