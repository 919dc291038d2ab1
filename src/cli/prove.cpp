// assay prove: what holds of a kernel for every shape that its contract promises.
#include "prove/prove.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"

namespace assay::cli {

namespace {

int status_of(const prove::Proof& proof) {
  if (proof.contract_wrong) return kWrongUse;
  return proof.verdict == prove::Status::Proved ? 0 : proof.verdict == prove::Status::Refuted ? 1 : 3;
}

}  // namespace

int prove_command(std::vector<std::string> args) {
  Arguments arguments(
      "Proves what it can of a kernel for every shape that its contract promises: accesses in bounds, "
      "indices that do "
      "not overflow, aligned accesses, legal launches.",
      "assay prove");
  std::string path, json;
  prove::Options options;
  arguments.add("contract", path, "a contract file").required();
  arguments.add("--json", json, "write the result to this file");
  arguments.add("--time", options.seconds, "seconds for the solver").positive();
  arguments.add("--dump", options.dump,
                "write each proved question to this folder, as SMT-LIB for another solver");
  if (const auto status = arguments.parse(args)) return *status;
  const auto contract = contract::load(path);
  if (!contract) {
    fmt::print(stderr, "{}\n", diagnostic(contract.error()));
    return kWrongUse;
  }
  Progress progress;
  options.progress = [&](const std::string& text) { progress.show(fmt::format("{}  {}", path, text)); };
  const prove::Proof proof = prove::prove(*contract, options);
  progress.clear();
  if (proof.contract_wrong) {
    fmt::print(stderr, "assay: {}\n", proof.problem);
    return kWrongUse;
  }
  fmt::print("{}", prove::terminal(proof));
  if (!json.empty() &&
      !write_text(json, prove::to_json(proof).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"))
    return kWrongUse;
  return status_of(proof);
}

}  // namespace assay::cli
