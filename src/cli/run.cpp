// assay run: a CUDA program on the virtual GPU, as valgrind runs a program on a virtual CPU.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/temporary_folder.h"
#include "cli/activity_files.h"
#include "cli/arguments.h"
#include "cli/program_file.h"
#include "cli/python_program.h"
#include "cli/run_commands.h"
#include "cli/run_summary.h"
#include "protocol/settings.h"
#include "subject/subject.h"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  uint64_t seed = 0, schedules = 0;
  unsigned threads = 0;
  std::string engine;         // as it was given
  std::string check = "all";  // as it was given
  std::string json, suppressions;
  ActivityFiles activity;
  int error_exit = 0;
  uint64_t max_instructions = 0;
  bool quiet = false;
  std::vector<std::string> program;
};

void describe_options(Arguments& arguments, RunOptions& options, bool with_program) {
  std::string names = "all, none";
  for (const protocol::CheckInfo& check : protocol::all_checks()) names += fmt::format(", {}", check.name);
  arguments.add("--seed", options.seed,
                "seed for the order of lanes, warps, blocks and streams (0: program order)");
  arguments.add(
      "--schedules", options.schedules,
      "run each launch under this many other schedules first, from the same memory, and compare the results");
  arguments.add("--threads", options.threads, "engine threads (0: one per core)");
  arguments.add("--engine", options.engine, "auto compiles long-running kernels, interpret none, compile all")
      .one_of({"auto", "interpret", "compile"});
  arguments.add("--check LIST", options.check, fmt::format("checks to run, separated by commas: {}", names));
  arguments.add("--json FILE", options.json, "write launches and findings to this file");
  add_activity_files(arguments, options.activity);
  arguments.add_flag(
      "--error-exit{1}", options.error_exit,
      "exit with 1 (or N) if there are findings; by default the exit status is the program's own");
  arguments.add("--suppressions FILE", options.suppressions,
                "file of findings to suppress: KIND [KERNEL [FILE:LINE]], * matches");
  arguments.add("--max-instructions", options.max_instructions,
                "stop a launch after this many warp instructions (0: never)");
  arguments.add_flag("--quiet", options.quiet, "print only the program's own output");
  if (with_program) arguments.add("program", options.program, "-- PROGRAM and its arguments").required();
  arguments.end_options_with_words();
}

// The library lies next to this program: bin/assay, lib/libcudart.so.13.
std::string library_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib";
}

void set_environment(const protocol::Settings& settings, const ProgramFile& file) {
  std::string folder = library_folder();
  const char* old = std::getenv("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH", (old && *old ? folder + ":" + old : folder).c_str(), 1);
  // An old-style run path would win over LD_LIBRARY_PATH; a preloaded library wins over both.
  if (file.has_rpath && !file.is_python) setenv("LD_PRELOAD", (folder + "/libcudart.so.13").c_str(), 1);
  setenv(protocol::kSettingsVariable, encode(settings).c_str(), 1);
}

// What the command line says; the user's environment for what it says nothing of (ASSAY_GPU).
Result<protocol::Settings> settings_of(const RunOptions& options) {
  auto settings = protocol::settings_from([](const char* name) -> const char* { return std::getenv(name); });
  if (!settings) return settings;
  const auto checks = protocol::CheckSet::parse(options.check);
  if (!checks) return checks.error();
  settings->seed = options.seed;
  settings->schedules = options.schedules;
  settings->threads = options.threads;
  if (const auto engine = protocol::engine_named(options.engine)) settings->engine = *engine;
  if (settings->code_cache.empty()) settings->code_cache = subject::cache_folder("") + "/code";
  settings->checks = *checks;
  // With suppressions, the program is meant to go on after a finding.
  settings->faults = options.suppressions.empty();
  settings->max_instructions = options.max_instructions;
  settings->quiet = options.quiet;
  settings->report_activity = !options.activity.empty();
  settings->count_bytes = !options.activity.html.empty();  // only the page shows them
  return settings;
}

volatile sig_atomic_t child_id = 0;
void pass_on(int signal) {
  if (child_id > 0) kill(static_cast<pid_t>(child_id), signal);
}

// Runs the program to its end and returns its wait status.
Result<int> run_child(const std::vector<std::string>& program, const std::string& path) {
  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t child = fork();
  if (child < 0) return Error{fmt::format("fork: {}", std::strerror(errno)), "", 0, 0};
  if (child == 0) {
    execv(path.c_str(), arguments.data());
    fmt::print(stderr, "assay: {}: {}\n", path, std::strerror(errno));
    _exit(127);
  }
  child_id = child;
  // The terminal sends these to the program too; it decides, and we stay to tell what happened.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGQUIT, SIG_IGN);
  std::signal(SIGTERM, pass_on);
  std::signal(SIGHUP, pass_on);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return Error{fmt::format("waitpid: {}", std::strerror(errno)), "", 0, 0};
  return status;
}

// Ends as the program ended.
int end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int signal = WTERMSIG(status);
  std::signal(signal, SIG_DFL);
  raise(signal);
  return 128 + signal;
}

int refuse(const Error& error) {
  fmt::print(stderr, "assay: {}\n", error.text());
  return 2;
}

int run(const RunOptions& options) {
  auto settings = settings_of(options);
  if (!settings) return refuse(settings.error());
  std::vector<std::string> command = options.program;
  std::string path = find_program(command.front());
  auto file = read_program(path);
  if (!file) return refuse(file.error());
  if (!file->interpreter.empty()) {
    command.front() = path;
    command.insert(command.begin(), file->interpreter.begin(), file->interpreter.end());
    path = command.front();
  }
  if (auto good = check_runtime(*file, path); !good) return refuse(good.error());
  if (!fs::exists(library_folder() + "/libcudart.so.13"))
    return refuse({fmt::format("libcudart.so.13 is missing in {}", library_folder()), "", 0, 0});
  if (file->is_python) {
    if (auto good = prepare_python(command, library_folder()); !good) return refuse(good.error());
    // An access error is skipped and the script goes on: torch's destructors abort when the device has failed.
    settings->faults = false;
  }
  auto suppressions = read_suppressions(options.suppressions);
  if (!suppressions) return refuse(suppressions.error());

  int status;
  RunSummary summary;
  {
    const TemporaryFolder folder("run");
    settings->events = folder.file("events");
    set_environment(*settings, *file);
    auto ended = run_child(command, path);
    if (!ended) return refuse(ended.error());
    status = *ended;
    ActivityLog log;
    const bool is_logged = !options.activity.empty();
    summary = read_summary(settings->events, *suppressions, is_logged ? &log : nullptr);
    if (is_logged &&
        !log.write(fmt::format("{}", fmt::join(options.program, " ")), *suppressions, options.activity))
      return 2;
  }
  if (!options.quiet) print_summary(summary);
  if (!options.json.empty())
    if (auto written = write_summary(summary, options.program, status, options.json); !written)
      return refuse(written.error());
  if (options.error_exit != 0 && summary.has_errors()) return options.error_exit;
  return end_as(status);
}

}  // namespace

int run_command(std::vector<std::string> args) {
  Arguments arguments(
      "Runs a CUDA program (linked with -cudart shared) or a Python program on the virtual GPU.",
      "assay run");
  RunOptions options;
  // What follows -- is the program's own business.
  const auto dashes = std::find(args.begin(), args.end(), "--");
  const bool has_dashes = dashes != args.end();
  describe_options(arguments, options, !has_dashes);
  if (has_dashes) {
    options.program.assign(dashes + 1, args.end());
    args.erase(dashes, args.end());
    if (options.program.empty()) return refuse({"name a program after --", "", 0, 0});
  }
  if (const auto status = arguments.parse(args)) return *status;
  return run(options);
}

}  // namespace assay::cli
