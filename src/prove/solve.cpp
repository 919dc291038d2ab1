#include "prove/solve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <z3++.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>

namespace assay::prove {

using Clock = std::chrono::steady_clock;

namespace {

constexpr rlim_t kMemory = rlim_t{3} << 30;  // bytes of address space; Z3 says unknown, or dies, beyond
constexpr int kKeptMemory = 512 << 20;       // bytes that a solver keeps for its next question
constexpr size_t kQuestionsPerContext = 64;  // chosen: setting one up is then a hundredth of the time
constexpr int kPollInterval = 20;            // milliseconds between looks at the clock of the process
// Seconds of elapsed time for each of processor time, at most: on a busy machine a proof waits, but not for ever. Chosen.
constexpr double kPatience = 8;
constexpr size_t kMostKnown = 20000;  // answers kept

std::atomic<double> solvers_used = 0;  // seconds

struct Header {
  uint64_t bytes = 0;
  uint64_t nonlinear = 0;
};

bool write_all(int file, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = send(file, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int file, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t n = recv(file, at, bytes, 0);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

// Linear questions: equations are solved first, then the older of Z3's arithmetic solvers, which is many
// times faster on these than the default one.
z3::solver linear_solver(z3::context& context) {
  z3::params old(context);
  old.set("arith.solver", 2u);
  z3::tactic steps = z3::tactic(context, "simplify") & z3::tactic(context, "propagate-values") &
                     z3::tactic(context, "solve-eqs") & z3::with(z3::tactic(context, "smt"), old);
  return steps.mk_solver();
}

std::string answer_text(z3::context& context, const Header& header, const std::string& smt) {
  try {
    z3::solver solver = header.nonlinear ? z3::solver(context) : linear_solver(context);
    solver.from_string(smt.c_str());
    const z3::check_result result = solver.check();
    if (result == z3::unsat) return "unsat";
    if (result != z3::sat) return "unknown";
    std::string text = "sat";
    const z3::model model = solver.get_model();
    for (unsigned i = 0; i < model.num_consts(); ++i) {
      const z3::func_decl name = model.get_const_decl(i);
      const z3::expr value = model.get_const_interp(name);
      if (value.is_bool()) text += fmt::format("\n{} {}", name.name().str(), value.is_true() ? 1 : 0);
      if (value.is_numeral()) text += fmt::format("\n{} {}", name.name().str(), value.get_decimal_string(0));
    }
    return text;
  } catch (const z3::exception& error) {
    return fmt::format("error {}", error.msg());
  } catch (const std::exception& error) {
    return fmt::format("error {}", error.what());
  }
}

// AddressSanitizer reserves terabytes of address space for itself: under a limit nothing could be allocated, and no question
// would be answered.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
constexpr bool kAddressSanitizer = false;
#endif

[[noreturn]] void serve(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit memory{kMemory, kMemory};
  if (!kAddressSanitizer) setrlimit(RLIMIT_AS, &memory);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // Memory that one question gives back, the next one takes again: it stays in the process, whose pages would otherwise be
  // made anew each time (40 % of the time of small questions).
  mallopt(M_TRIM_THRESHOLD, kKeptMemory);
  mallopt(M_MMAP_THRESHOLD, kKeptMemory);
  // Setting up a context takes as long as a small question, so some share one. Nothing of a question is left in it: each has
  // a solver of its own, and names mean nothing beyond it.
  std::optional<z3::context> context;
  size_t asked = 0;
  for (Header header; read_all(socket, &header, sizeof header);) {
    std::string smt(header.bytes, '\0');
    if (!read_all(socket, smt.data(), smt.size())) break;
    if (asked++ % kQuestionsPerContext == 0) context.reset(), context.emplace();
    const std::string text = answer_text(*context, header, smt);
    const uint64_t bytes = text.size();
    if (!write_all(socket, &bytes, sizeof bytes) || !write_all(socket, text.data(), text.size())) break;
  }
  _exit(0);
}

Int number(const std::string& text) {
  Int value = 0;
  for (const char c : text)
    if (c >= '0' && c <= '9') value = value > (Int{1} << 120) ? value : value * 10 + (c - '0');
  return text.starts_with('-') ? -value : value;
}

Answer parsed(const std::string& text) {
  Answer answer;
  if (text == "unsat") answer.kind = Answer::Kind::Unsatisfiable;
  if (!text.starts_with("sat")) return answer;
  answer.kind = Answer::Kind::Satisfiable;
  for (size_t at = text.find('\n'); at != std::string::npos;) {
    const size_t end = text.find('\n', at + 1);
    const std::string line = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const size_t space = line.rfind(' ');
    if (space != std::string::npos && line.size() - space < 37)
      answer.model[line.substr(0, space)] = number(line.substr(space + 1));
    at = end;
  }
  return answer;
}

}  // namespace

double work_seconds() {
  static const Clock::time_point began = Clock::now();
  const double elapsed = std::chrono::duration<double>(Clock::now() - began).count();
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  const double used =
      static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec) + solvers_used;
  return std::max(used, elapsed / kPatience);
}

struct Solver::Process {
  pid_t child = -1;
  int socket = -1;

  ~Process() { stop(); }

  bool start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    child = fork();
    if (child == 0) {
      close(ends[0]);
      serve(ends[1]);
    }
    close(ends[1]);
    socket = ends[0];
    return child > 0;
  }

  void stop() {
    if (child > 0) {
      kill(child, SIGKILL);
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    if (socket >= 0) close(socket);
    child = socket = -1;
  }

  // Of the child, since it began.
  double used() const {
    clockid_t clock;
    timespec time{};
    if (clock_getcpuclockid(child, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  // What the child said; empty: nothing in time.
  std::string ask(const Question& question) {
    if (child < 0 && !start()) return "";
    const Header header{question.smt.size(), question.nonlinear ? 1u : 0u};
    const double before = used();
    std::string text;
    const bool answered = write_all(socket, &header, sizeof header) &&
                          write_all(socket, question.smt.data(), question.smt.size()) &&
                          wait(before + question.seconds, question.seconds * kPatience) && read(text);
    solvers_used += used() - before;
    if (!answered) stop();
    return text;
  }

  // Whether there is something to read before the child has used this much.
  bool wait(double most_used, double most_elapsed) const {
    const auto until = Clock::now() + std::chrono::duration<double>(most_elapsed);
    pollfd waiting{socket, POLLIN, 0};
    while (poll(&waiting, 1, kPollInterval) == 0)
      if (used() > most_used || Clock::now() > until) return false;
    return waiting.revents != 0;
  }

  bool read(std::string& text) const {
    uint64_t bytes = 0;
    if (!read_all(socket, &bytes, sizeof bytes)) return false;
    std::string got(bytes, '\0');
    if (!read_all(socket, got.data(), bytes)) return false;
    text = std::move(got);
    return true;
  }
};

Solver::Solver() : process_(std::make_unique<Process>()) {
  process_->start();  // before this process grows
}
Solver::~Solver() = default;

Answer Solver::ask(const Question& question) {
  const std::string key = (question.nonlinear ? "n" : "l") + question.smt;
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (const auto found = undecided_.find(key); found != undecided_.end() && found->second >= question.seconds)
    return {};
  const double start = work_seconds();
  ++questions_;
  const std::string text = process_->ask(question);
  seconds_ += work_seconds() - start;
  Answer answer = parsed(text);
  if (answer.kind == Answer::Kind::Unsatisfiable && use_unsatisfiable_) use_unsatisfiable_(question);
  if (known_.size() + undecided_.size() >= kMostKnown) return answer;
  if (answer.kind == Answer::Kind::Unknown)
    undecided_[key] = question.seconds;
  else
    known_[key] = answer;
  return answer;
}

}  // namespace assay::prove
