// assay: the commands, one row each.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/run_commands.h"
#include "cli/signals.h"
#include "cli/verdict_commands.h"

namespace assay::cli {
namespace {

// NOLINTNEXTLINE(performance-unnecessary-value-param): as all commands take their arguments
int version_command(std::vector<std::string>) {
  fmt::print("assay {}\n", ASSAY_VERSION);
  return 0;
}

struct Command {
  std::string_view name, arguments, summary;
  int (*run)(std::vector<std::string> args);
};

constexpr Command kCommands[] = {
    {"check", "CONTRACT", "check a kernel against its contract", check_command},
    {"prove", "CONTRACT", "prove safety properties for every shape the contract promises", prove_command},
    {"train", "CONTRACT", "train a small transformer with a kernel in it: does it still learn?",
     train_command},
    {"certify", "CONTRACT", "check a kernel and write a signed certificate for its files", certify_command},
    {"verify", "CERTIFICATE", "verify a certificate against files and a policy", verify_command},
    {"replay", "REPORT", "repeat a trial from a report, or a captured call", replay_command},
    {"shim", "CONTRACT", "write a library that monitors a kernel's calls in production", shim_command},
    {"fleet", "ASSAYD …", "combine the evidence of assayd on many machines", fleet_command},
    {"explain", "CONTRACT", "show where a kernel loses precision, line by line", explain_command},
    {"compare-devices", "CONTRACT …", "compare the virtual device with a GPU, bit by bit",
     compare_devices_command},
    {"corpus", "[FILTER …]", "check kernels whose verdict is known", corpus_command},
    {"lint", "FILE", "look for likely mistakes in a kernel's PTX, without running it", lint_command},
    {"judge", "CONTRACT …", "judge tensors that were computed elsewhere", judge_command},
    {"formula", "CONTRACT", "show how Assay reads a contract, and its error budget", formula_command},
    {"init", "KERNEL", "draft a contract for a kernel", init_command},
    {"run", "-- PROGRAM …", "run a CUDA program on the virtual GPU with all checks on", run_command},
    {"events", "FILE", "show what a program on the virtual GPU reported", events_command},
    {"doctor", "", "find out why the GPU does not work here, and how to fix it", doctor_command},
    {"isa", "[FILTER]", "list the PTX instructions and which of them run", isa_command},
    {"version", "", "print the version", version_command},
};

void print_help(std::FILE* to) {
  fmt::print(to, "Assay checks GPU kernels against a contract.\n\nusage: assay COMMAND [OPTIONS]\n\n");
  for (const Command& command : kCommands)
    fmt::print(to, "  {:<15} {:<13} {}\n", command.name, command.arguments, command.summary);
  fmt::print(to, "\nRun `assay COMMAND --help` for its options.\n");
}

int dispatch(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return 0;
  }
  if (name == "--version") name = "version";
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [&](const Command& command) { return command.name == name; });
  if (found == std::end(kCommands)) {
    fmt::print(stderr, "assay: unknown command `{}`; run `assay help` for the list\n", name);
    return 2;
  }
  stop_on_signals();
  return status_after_signals(found->run({argv + 2, argv + argc}));
}

}  // namespace
}  // namespace assay::cli

int main(int argc, char** argv) {
  try {
    return assay::cli::dispatch(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "assay: {}\n", error.what());
    return 2;
  }
}
