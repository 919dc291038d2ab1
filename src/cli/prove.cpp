// assay prove: what holds of a kernel for every shape that its contract promises.
#include "prove/prove.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"

namespace assay::cli {

namespace fs = std::filesystem;

namespace {

int status_of(const prove::Proof& proof) {
  return proof.verdict == prove::Status::Proved ? 0 : proof.verdict == prove::Status::Refuted ? 1 : 3;
}

// A reader finds a whole result at any time. What is no file (/dev/stdout) is written once, at the end.
bool write_json(const std::string& path, const prove::Proof& proof) {
  const std::string text = prove::to_json(proof).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    return !proof.finished || write_text(path, text);
  const std::string part = path + ".part";
  if (!(std::ofstream(part, std::ios::binary) << text).flush()) return write_text(path, text);
  fs::rename(part, path, error);
  if (error) fmt::print(stderr, "assay: {} cannot be written: {}\n", path, error.message());
  return !error;
}

// What is wrong with a contract as far as proofs go; empty: nothing.
std::string not_provable(const contract::Contract& contract) {
  if (contract.kernel.python)
    return "proofs are about CUDA C++ and PTX; this contract names a Python function";
  return "";
}

// The folder for --dump: it is made, and must be empty, so that what is in it afterwards is this proof's.
std::string dump_problem(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) return fmt::format("{}: this folder cannot be created", folder);
  if (!fs::is_empty(folder, error)) return fmt::format("{}: --dump needs an empty folder", folder);
  return "";
}

// Whether a file can be written is found out before the proof, not after it. Empty: it can.
std::string output_problem(const std::string& path) {
  std::error_code error;
  const auto because = [&](std::string_view why) {
    return fmt::format("{} cannot be written: {}", path, why);
  };
  if (fs::is_directory(path, error)) return because("it is a folder");
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error))
    return because(fmt::format("the folder {} does not exist", folder.string()));
  const std::string changed = fs::exists(path, error) ? path : folder.string();
  return access(changed.c_str(), W_OK) == 0 ? "" : because(std::strerror(errno));
}

int wrong_use(const std::string& text) {
  fmt::print(stderr, "assay: {}\n", text);
  return kWrongUse;
}

}  // namespace

int prove_command(std::vector<std::string> args) {
  Arguments arguments(
      "Proves what it can of a kernel for every shape that its contract promises: accesses in bounds and "
      "aligned, indices that do not overflow, legal launches, barriers that every thread reaches, no races, "
      "outputs that are written. Values are compared with the formula. A counterexample counts once the "
      "virtual GPU has "
      "shown it.",
      "assay prove");
  std::string path, json, html;
  prove::Options options;
  arguments.add("contract", path, "a contract file").required();
  arguments.add("--json FILE", json, "write the result to this file, each time an obligation is decided");
  arguments.add("--html FILE", html, "write an HTML page to this file: the proof line by line");
  arguments
      .add("--time SECONDS", options.seconds,
           fmt::format("seconds for the solver; {:.0f} by default", options.seconds))
      .positive();
  arguments.add("--dump FOLDER", options.dump,
                "write each proved query to this folder, as SMT-LIB for another solver");
  arguments.add("--only OBLIGATION", options.only,
                "decide only this obligation (bounds, values, …); may be repeated");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  for (const std::string& name : options.only)
    if (prove::statement_of(name).empty())
      return wrong_use(fmt::format("there is no obligation `{}`; docs/prove.md lists them", name));
  const auto contract = contract::load(path);
  if (!contract) return complain(contract.error());
  if (const std::string why = not_provable(*contract); !why.empty()) return wrong_use(path + ": " + why);
  for (const std::string& file : {json, html})
    if (!file.empty())
      if (const std::string why = output_problem(file); !why.empty()) return wrong_use(why);
  if (!options.dump.empty())
    if (const std::string why = dump_problem(options.dump); !why.empty()) return wrong_use(why);
  announce_cache();
  Progress progress;
  options.progress = [&](const std::string& text) { progress.show(fmt::format("{}  {}", path, text)); };
  bool written = true;
  if (!json.empty())
    options.decided = [&](const prove::Proof& so_far) { written = written && write_json(json, so_far); };
  const prove::Proof proof = prove::prove(*contract, options);
  progress.clear();
  if (proof.contract_wrong) {
    fmt::print(stderr, "{}\n", proof.problem);
    return kWrongUse;
  }
  fmt::print("{}", prove::terminal(proof, terminal_options()));
  if (!json.empty()) written = written && write_json(json, proof);
  if (!html.empty()) {
    const report::Report page[] = {prove::to_report(*contract, proof)};
    written = write_text(html, report::html(page)) && written;
  }
  return written ? status_of(proof) : kWrongUse;
}

}  // namespace assay::cli
