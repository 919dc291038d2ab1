#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/diagnostic.h"
#include "cli/arguments.h"
#include "subject/subject.h"

namespace assay::cli {

namespace {

int width_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

}  // namespace

bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) != 0;
}

report::TerminalOptions terminal_options() {
  const bool terminal = stdout_is_terminal() && !std::getenv("NO_COLOR");
  return {.colour = terminal, .width = stdout_is_terminal() ? std::min(width_of(STDOUT_FILENO), 120) : 100};
}

void Progress::show(const std::string& text) {
  if (!isatty(STDERR_FILENO)) return;
  std::lock_guard lock(mutex_);
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (shown_ && now - last_ < 0.1) return;
  last_ = now;
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s",
               text.substr(0, static_cast<std::size_t>(width_of(STDERR_FILENO) - 1)).c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  std::lock_guard lock(mutex_);
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void announce_cache() {
  const std::string note = subject::cache_note("");
  if (!note.empty()) std::fprintf(stderr, "assay: %s\n", note.c_str());
}

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return true;
  std::fprintf(stderr, "assay: %s cannot be written\n", path.c_str());
  return false;
}

int complain(const Error& error) {
  fmt::print(stderr, "{}\n", diagnostic(error));
  return kWrongUse;
}

}  // namespace assay::cli
