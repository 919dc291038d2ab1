// assay compare-devices: do the virtual device and a GPU give the same bits?
//
// Exit status: 0 no difference that a contract forbids; 1 one; 2 wrong use; 3 a contract could not be compared.
#include "assayer/compare_devices.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/diagnostic.h"
#include "base/parallel.h"
#include "cli/arguments.h"
#include "cli/gpu_reason.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "finding/message.h"

namespace assay::cli {

namespace fs = std::filesystem;
using assayer::DeviceComparison;
using assayer::DeviceDifference;

namespace {

std::string difference_text(const DeviceDifference& difference) {
  if (!difference.cuda_failure.empty() || !difference.virtual_failure.empty())
    return fmt::format("the call {} on the {} only: {} ({})", "fails",
                       difference.cuda_failure.empty() ? "virtual device" : "GPU",
                       difference.cuda_failure.empty() ? difference.virtual_failure : difference.cuda_failure,
                       difference.trial);
  std::string index;
  for (const int64_t i : difference.index) index += fmt::format("{}{}", index.empty() ? "" : ", ", i);
  return fmt::format(
      "{} of {} elements of {} differ, by up to {:.3g} units in the last place: {}[{}] is {} on the "
      "virtual device and {} on the GPU ({})",
      difference.differing, difference.elements, difference.output, difference.largest_ulps,
      difference.output, index, difference.virtual_value, difference.cuda_value, difference.trial);
}

std::string comparison_text(const DeviceComparison& one) {
  if (!one.problem.empty()) return fmt::format("could not be compared: {}\n", one.problem);
  std::string text = fmt::format("{} of {} trials give the same bits on both devices, in {:.1f} s\n",
                                 one.same, one.trials, one.seconds);
  if (one.forbidden) text += "  not allowed by the contract: " + difference_text(*one.forbidden) + "\n";
  if (one.differs) text += "  allowed by the contract: " + difference_text(*one.differs) + "\n";
  if (one.varies)
    text += "  a kernel whose results vary from run to run: " + difference_text(*one.varies) + "\n";
  for (const std::string& suspect : one.suspects) text += "  may be due to " + suspect + "\n";
  return text;
}

Json json_of(const DeviceDifference& d) {
  return {{"trial", Json::parse(d.trial_json, nullptr, false)},
          {"output", d.output},
          {"index", d.index},
          {"virtual", d.virtual_value},
          {"cuda", d.cuda_value},
          {"differing", d.differing},
          {"elements", d.elements},
          {"largest_ulps", d.largest_ulps},
          {"virtual_failure", d.virtual_failure},
          {"cuda_failure", d.cuda_failure},
          {"repeatable", d.repeatable},
          {"allowed", d.allowed}};
}

Json json_of(const DeviceComparison& one) {
  Json json = {{"contract", one.contract}, {"problem", one.problem},   {"trials", one.trials},
               {"same", one.same},         {"suspects", one.suspects}, {"seconds", one.seconds}};
  if (one.forbidden) json["forbidden"] = json_of(*one.forbidden);
  if (one.differs) json["differs"] = json_of(*one.differs);
  if (one.varies) json["varies"] = json_of(*one.varies);
  return json;
}

// A contract, with another source in place of its own where it is of a corpus.
struct Compared {
  std::string name, contract;
  std::vector<std::string> sources;  // empty: the contract's own
};

// The kernels under correct/ of a corpus (corpus/README.md).
std::vector<Compared> right_kernels(const fs::path& folder, const std::vector<std::string>& filters) {
  std::vector<Compared> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    const fs::path& source = entry.path();
    const fs::path contract = source.parent_path().parent_path() / "contract.toml";
    if (source.extension() != ".cu" || source.parent_path().filename() != "correct" || !fs::exists(contract))
      continue;
    const std::string name = source.lexically_relative(folder).replace_extension().generic_string();
    const bool wanted = filters.empty() ||
                        std::any_of(filters.begin(), filters.end(),
                                    [&](const std::string& f) { return name.find(f) != std::string::npos; });
    if (wanted) found.push_back({name, contract.string(), {"correct/" + source.filename().string()}});
  }
  std::sort(found.begin(), found.end(), [](const Compared& a, const Compared& b) { return a.name < b.name; });
  return found;
}

}  // namespace

int compare_devices_command(std::vector<std::string> args) {
  Arguments arguments("Runs a contract's trials on the virtual device and on a GPU, and compares the bits.",
                      "assay compare-devices");
  std::vector<std::string> paths;
  std::string json, corpus;
  assayer::CheckOptions options;
  options.budget = 10;
  int trials = 40, jobs = 1;
  arguments.add("contract", paths, "contract files; with --corpus, parts of kernel names");
  arguments.add("--corpus FOLDER", corpus, "compare the correct kernels of this corpus instead").folder();
  arguments.add("--budget SECONDS", options.budget, "seconds of trials for each contract").positive();
  arguments.add("--trials", trials, "most trials for each contract").positive();
  arguments.add("--jobs", jobs, "contracts to compare in parallel").positive();
  arguments.add("--seed", options.seed, "random seed; the same seed gives the same trials");
  arguments.add("--json FILE", json, "write one record for each contract to this file");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  std::vector<Compared> all;
  if (!corpus.empty())
    all = right_kernels(corpus, paths);
  else
    for (const std::string& path : paths) all.push_back({path, path, {}});
  if (all.empty()) {
    fmt::print(stderr, "assay: name a contract to compare; see `assay compare-devices --help`\n");
    return kWrongUse;
  }
  if (const AutoDevice device = auto_device(); !device.both) {
    fmt::print(stderr, "assay: {}\n",
               device.problem.empty()
                   ? "there is no GPU to compare with. Fix: use a machine that has one; `assay doctor` "
                     "says what is missing here."
                   : device.problem);
    return judge::exit_status(judge::Verdict::Inconclusive);
  }
  announce_cache();
  std::vector<DeviceComparison> compared(all.size());
  int status = 0;
  in_order(
      all.size(), jobs,
      [&](std::size_t i) {
        auto contract = contract::load(all[i].contract);
        if (!contract) {
          compared[i].problem = diagnostic(contract.error());
          return;
        }
        if (!all[i].sources.empty()) contract->kernel.sources = all[i].sources;
        assayer::CheckOptions own = options;
        own.threads = std::max(1, cores() / jobs);
        compared[i] = assayer::compare_devices(*contract, own, trials);
      },
      [&](std::size_t i) {
        fmt::print("{}\n  {}", all[i].name, comparison_text(compared[i]));
        std::fflush(stdout);
        compared[i].contract = all[i].name;
        if (compared[i].forbidden) status = 1;
        if (!compared[i].problem.empty() && status == 0)
          status = judge::exit_status(judge::Verdict::Inconclusive);
      });
  int same = 0;
  for (const DeviceComparison& one : compared) same += one.problem.empty() && one.same == one.trials;
  if (all.size() > 1) fmt::print("{} of {} give the same bits in all trials\n", same, all.size());
  if (json.empty()) return status;
  Json list = Json::array();
  for (const DeviceComparison& one : compared) list.push_back(json_of(one));
  return write_text(json, list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n") ? status
                                                                                           : kWrongUse;
}

}  // namespace assay::cli
