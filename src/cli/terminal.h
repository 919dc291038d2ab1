// The user's terminal: progress on stderr, colour only where it shows.
#pragma once

#include <mutex>
#include <string>

#include "base/result.h"
#include "report/report.h"

namespace assay::cli {

bool stdout_is_terminal();
report::TerminalOptions terminal_options();

// One line that is overwritten, at most ten times a second; nothing where stderr is no terminal. May be
// called from several threads.
class Progress {
 public:
  void show(const std::string& text);
  void clear();

 private:
  std::mutex mutex_;
  double last_ = 0;
  bool shown_ = false;
};

// Says on stderr where builds go, if that is not the user's cache.
void announce_cache();

// Writes a file, or says on stderr why it could not.
bool write_text(const std::string& path, const std::string& text);

// Prints an error, with its place where it has one, and returns the exit status of wrong use.
int complain(const Error& error);

}  // namespace assay::cli
