#include "doctor/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/interrupt.h"

namespace assay::doctor {

namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For a killed child to die. One that is in the middle of a driver's call dies when the call returns, if ever.
constexpr milliseconds kDying{50};

void quieten() {
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// How a child that is about to end ends; none: it does not, within kDying.
std::optional<int> wait_for(pid_t child) {
  constexpr milliseconds kPause{1};
  int status = 0;
  for (auto waited = milliseconds(0); waited < kDying; waited += kPause) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(kPause);
  }
  return std::nullopt;
}

}  // namespace

void ProbeWriter::write(const ProbeJson& line) const {
  const std::string text = line.dump(-1, ' ', false, ProbeJson::error_handler_t::replace) + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(pipe_, text.data() + done, text.size() - done);
    if (wrote <= 0) _exit(1);  // the reader has gone
    done += static_cast<std::size_t>(wrote);
  }
}

Probe::Probe(const Machine& machine, const std::function<void(const ProbeWriter&)>& ask)
    : begun_(steady_clock::now()) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  child_ = fork();
  if (child_ == 0) {
    quieten();
    clearenv();
    for (const auto& [name, value] : machine.environment) setenv(name.c_str(), value.c_str(), 1);
    const ProbeWriter out(ends[1]);
    ask(out);
    out.write({{"done", true}});
    _exit(0);  // no destructors of the driver, which may hang, too
  }
  close(ends[1]);
  pipe_ = ends[0];
}

Probe::~Probe() {
  if (pipe_ >= 0) close(pipe_);
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  wait_for(child_);
}

ProbeRun Probe::finish(steady_clock::time_point deadline, const std::function<void(const ProbeJson&)>& line) {
  ProbeRun run;
  if (child_ <= 0) {
    run.end = ProbeEnd::NotStarted;
    return run;
  }
  std::string text;
  bool is_done = false;
  run.end = ProbeEnd::TimedOut;
  while (!interrupted()) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    pollfd waiting{pipe_, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<long>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char part[4096];
    const ssize_t got = read(pipe_, part, sizeof part);
    if (got <= 0) {
      run.end = ProbeEnd::Ended;
      break;
    }
    text.append(part, static_cast<std::size_t>(got));
    for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const ProbeJson json = ProbeJson::parse(text.substr(0, end), nullptr, false);
      if (!json.is_object()) continue;
      is_done |= json.contains("done");
      if (json.contains("step")) run.step = json["step"].get<std::string>();
      line(json);
    }
  }
  run.seconds = duration<double>(steady_clock::now() - begun_).count();
  if (run.end != ProbeEnd::Ended || is_done) return run;
  // The library ended the process. How, may not be known yet: the end of one with an open GPU takes its time.
  run.end = ProbeEnd::Died;
  const std::optional<int> status = wait_for(child_);
  if (status) child_ = -1;
  if (status && WIFSIGNALED(*status)) run.signal = WTERMSIG(*status);
  return run;
}

}  // namespace assay::doctor
