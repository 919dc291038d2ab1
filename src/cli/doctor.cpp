// assay doctor: why the GPU, a library or a process does not work here, and how to fix it.
//
// Exit status: 0 healthy; 1 a fault; 2 wrong use; 3 something could not be decided.
#include "doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/gpu_reason.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "contract/contract.h"

namespace assay::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrint = "-";  // in place of a file's name

doctor::Machine own_machine() {
  return doctor::this_machine(fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib");
}

// What `--quick` looks at, with the time of the whole.
doctor::Diagnosis quick_and_patient() {
  doctor::Machine machine = own_machine();
  machine.quick_seconds = machine.full_seconds;
  return doctor::diagnose(machine, {}, doctor::Depth::Quick);
}

// What --for names: a number is a process, *.toml a contract, anything else a file.
Result<doctor::Target> target_named(const std::string& word) {
  doctor::Target target;
  if (word.empty()) return target;
  target.name = word;
  constexpr std::size_t kLongestPid = 9;
  if (word.size() <= kLongestPid &&
      std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c); })) {
    target.kind = doctor::Target::Kind::Process;
    target.process = std::stoi(word);
    return target;
  }
  if (std::error_code error; !fs::is_regular_file(word, error))
    return Error{"no such file; --for takes a contract, a library or program, or a process id", word};
  if (!word.ends_with(".toml")) {
    target.kind = doctor::Target::Kind::Library;
    return target;
  }
  const auto contract = contract::load(word);
  if (!contract) return contract.error();
  target.kind = doctor::Target::Kind::Contract;
  target.arch = contract->kernel.arch;
  target.is_cuda = std::ranges::any_of(contract->kernel.sources,
                                       [](const std::string& source) { return source.ends_with(".cu"); });
  return target;
}

}  // namespace

std::string why_gpu_unusable() {
  return doctor::why_gpu_unusable(quick_and_patient());
}

// The device files tell in microseconds that there is no GPU; asking the driver takes a fraction of a second, or seconds.
AutoDevice auto_device() {
  if (const char* runtime = std::getenv("ASSAY_CUDA_RUNTIME"); runtime && *runtime) return {.both = true};
  std::error_code error;
  if (!fs::exists("/dev/nvidiactl", error) && !fs::exists("/dev/dxg", error)) return {};
  const doctor::Diagnosis found = quick_and_patient();
  const std::string problem = doctor::why_gpu_unusable(found);
  return {.both = problem.empty() && !found.gpus.empty(), .problem = problem};
}

int doctor_command(std::vector<std::string> args) {
  Arguments arguments("Finds out why the GPU, a library or a process does not work here, and how to fix it.",
                      "assay doctor");
  std::string word, json;
  bool quick = false;
  // `--json` alone prints.
  for (std::size_t i = 0; i < args.size(); ++i)
    if (args[i] == "--json" && (i + 1 == args.size() || args[i + 1].starts_with("--")))
      args.insert(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, kPrint);
  arguments.add("--for FILE|PID", word,
                "a contract, a library or program, or a process id to examine as well");
  arguments.add_flag("--quick", quick, "do not run a kernel; takes less than a second");
  arguments.add("--json FILE", json,
                "write the result to this file; without a name, print it instead of the text");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  const auto target = target_named(word);
  if (!target) return complain(target.error());
  const auto depth = quick ? doctor::Depth::Quick : doctor::Depth::Full;
  const doctor::Diagnosis diagnosis = doctor::diagnose(own_machine(), *target, depth);
  if (json != kPrint) fmt::print("{}", doctor::terminal(diagnosis));
  if (json == kPrint)
    fmt::print("{}", doctor::json(diagnosis));
  else if (!json.empty() && !write_text(json, doctor::json(diagnosis)))
    return kWrongUse;
  return doctor::exit_status(diagnosis);
}

}  // namespace assay::cli
