// assay explain: where a kernel loses precision, line by line. It only shows: verdicts are the judge's part.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "assayer/shadow_run.h"
#include "base/interrupt.h"
#include "cli/arguments.h"
#include "cli/profile_text.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "finding/json.h"

namespace assay::cli {

int explain_command(std::vector<std::string> args) {
  Arguments arguments("Shows where a kernel loses precision, line by line.", "assay explain");
  std::string path, json;
  std::vector<std::string> dims;
  assayer::CheckOptions options;
  arguments.add("contract", path, "a contract file").required();
  arguments.add("--shape DIM=N", dims, "sizes, such as N=1024; the others are those of the first trial");
  arguments.add("--seed", options.seed, "random seed of the inputs");
  arguments.add("--json FILE", json, "write the profile to this file");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  const auto contract = contract::load(path);
  if (!contract) return complain(contract.error());
  contract::Shape shape;
  for (const std::string& word : dims) {
    const size_t equals = word.find('=');
    const bool known = equals != std::string::npos && contract->dim(word.substr(0, equals)) != nullptr;
    const int64_t value = known ? std::atoll(word.c_str() + equals + 1) : 0;
    if (!known || value <= 0) {
      fmt::print(stderr, "assay: --shape {}: expected a dim of the contract and a size, such as N=1024\n",
                 word);
      return kWrongUse;
    }
    if (const contract::Dim& dim = *contract->dim(word.substr(0, equals)); !dim.contains(value)) {
      fmt::print(stderr, "assay: --shape {}: the contract promises {} to {}\n", word, dim.lowest(),
                 dim.highest());
      return kWrongUse;
    }
    shape[word.substr(0, equals)] = value;
  }
  announce_cache();
  const assayer::Explanation explanation = assayer::explain(*contract, shape, options);
  if (!explanation.problem.empty()) {
    fmt::print(stderr, "assay: {}\n", interrupted() ? "interrupted" : explanation.problem);
    return explanation.contract_wrong ? 2 : 3;
  }
  fmt::print("{}  {}\n{}", path, trial::to_string(explanation.trial), profile_text(*explanation.profile, ""));
  if (!json.empty() && !write_text(json, to_json(*explanation.profile).dump(2) + "\n")) return kWrongUse;
  return 0;
}

}  // namespace assay::cli
