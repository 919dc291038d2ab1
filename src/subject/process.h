// Commands with a time limit.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace assay::subject {

struct CommandResult {
  int status = 0;  // exit status; 128 + signal if it died of one
  bool timed_out = false;
  std::string output;  // stdout and stderr together, at most 256 KiB
};

struct CommandOptions {
  std::string folder;                    // to run in; empty: this program's
  std::string temporary;                 // for its temporary files; empty: as for this program
  std::vector<std::string> variables{};  // "NAME=value", beside or instead of this program's own
};

// Runs argv[0] by path or through PATH. The whole process group is killed at the limit, and when this program
// is interrupted, which is an Error.
Result<CommandResult> run_command(const std::vector<std::string>& argv, double timeout_seconds,
                                  const CommandOptions& options = {});

// Why nvcc must not be given a file with this path; empty: it may. nvcc calls other programs through a shell, and puts paths
// between double quotes: a folder called $(command) would be a command.
std::string why_not_for_nvcc(const std::string& path);

// argv or envp of exec: pointers into the words, and a null after them.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

constexpr int kGlance = 50;  // milliseconds between looks at whether to stop

// Whether the process has children that run.
bool has_children(pid_t process);
// Kills all processes of a session whose leader has ended.
void kill_session(pid_t session);

// The folder of the running program.
std::string program_folder();

}  // namespace assay::subject
