#include "subject/process_clock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include "base/file.h"

namespace assay::subject {

namespace {

// Share of elapsed time that passes on the clock of a process that could run and does not get a processor.
constexpr double kLeast = 0.05;

struct Status {
  char state = 'S';
  double processor = 0;
};

// proc(5): "pid (name) state ppid …", the 14th and 15th the ticks in user and system mode. Of a process that
// has ended nothing can be read: it has used no time.
Status status_of(const std::filesystem::path& path) {
  const std::string text = text_of(path.string());
  Status status;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return status;
  std::istringstream fields(text.substr(name_end + 1));
  fields >> status.state;
  std::string skipped;
  for (int i = 4; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  status.processor = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return status;
}

}  // namespace

ProcessClock::ProcessClock(pid_t process) : process_(process), last_(std::chrono::steady_clock::now()) {
  processor_ = read().processor;
}

ProcessClock::Reading ProcessClock::read() const {
  const std::string folder = fmt::format("/proc/{}", process_);
  Reading reading;
  reading.processor = status_of(folder + "/stat").processor;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder + "/task", error), end; !error && it != end;
       it.increment(error)) {
    ++reading.threads;
    if (reading.wants_to_run) continue;
    const char state = status_of(it->path() / "stat").state;
    if (state == 'R' || state == 'D') reading.wants_to_run = true;
  }
  return reading;
}

double ProcessClock::seconds() {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - last_).count();
  const Reading reading = read();
  const double computed = reading.processor - processor_;
  const bool busy = reading.wants_to_run || computed > 0;
  seconds_ += busy ? std::clamp(computed, kLeast * elapsed, elapsed) : elapsed;
  last_ = now;
  processor_ = reading.processor;
  threads_ = reading.threads;
  return seconds_;
}

}  // namespace assay::subject
