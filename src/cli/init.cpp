// assay init: the draft of a contract.
#include "contract/init.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/python.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"

namespace assay::cli {

namespace fs = std::filesystem;

namespace {

// A module of the package, in a process that takes the place of this one.
int become_module(const std::vector<std::string>& words) {
  const std::string package = python_package_folder();
  if (package.empty()) return complain({"Assay's Python package is not next to this program"});
  std::vector<std::string> command = {python_program(), "-m"};
  command.insert(command.end(), words.begin(), words.end());
  setenv("PYTHONPATH", path_with(package, "PYTHONPATH").c_str(), 1);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return complain({fmt::format("{} cannot be run; name an interpreter in ASSAY_PYTHON", command[0])});
}

int init_from(const std::string& function, const std::vector<std::string>& tensors,
              const std::vector<std::string>& scalars, const std::string& out) {
  const std::string target = out.empty() ? function.substr(function.rfind(':') + 1) + ".toml" : out;
  if (std::error_code error; fs::exists(target, error)) return complain({"this file already exists", target});
  std::vector<std::string> words = {"assay.traced", function, "--output", target};
  for (const std::string& text : tensors) words.insert(words.end(), {"--tensor", text});
  for (const std::string& text : scalars) words.insert(words.end(), {"--scalar", text});
  return become_module(words);
}

// The contract of a benchmark's problem and an answer to it, with all that it refers to.
int init_problem(const std::string& answer, const std::string& problem, const std::string& out) {
  const std::string target = out.empty() ? fs::path(answer).stem().string() : out;
  if (std::error_code error; fs::exists(target, error) && !fs::is_empty(target, error))
    return complain({"this folder already exists", target});
  return become_module(
      {"assay.problem.describe", "--answer", answer, "--problem", problem, "--out", target, "--sentence"});
}

}  // namespace

int init_command(std::vector<std::string> args) {
  Arguments arguments(
      "Drafts a contract from the signatures in a source file, from a PyTorch function, or from a "
      "benchmark's "
      "problem.",
      "assay init");
  std::string source, entry, from, problem, out;
  std::vector<std::string> tensors, scalars;
  arguments.add("source", source, "a .cu file; with --problem, an answer to it");
  arguments.add("--entry FUNCTION", entry, "the extern \"C\" function; by default the last one");
  arguments.add(
      "--from FUNCTION", from,
      "instead of a source: FILE.py:FUNCTION or MODULE:FUNCTION, whose operators become the formula");
  arguments.add("--tensor TENSOR", tensors,
                "with --from, for each tensor argument: \"x = bf16[rows, cols]\"");
  arguments.add("--scalar SCALAR", scalars, "with --from, for each number argument: \"eps = 1e-6\"");
  arguments.add("--problem PATH", problem, "a benchmark's problem, a file or a folder: writes a folder");
  arguments.add("-o,--output FILE", out, "the contract to write; by default next to the source, as .toml");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (!problem.empty()) {
    if (source.empty() || !from.empty()) return complain({"--problem takes an answer, and not --from"});
    return init_problem(source, problem, out);
  }
  if (source.empty() == from.empty())
    return complain({"name a .cu file, or a PyTorch function with --from FILE.py:FUNCTION"});
  if (!from.empty()) return init_from(from, tensors, scalars, out);
  const auto text = read_file(source);
  if (!text) return complain({fmt::format("this source cannot be read: {}", text.error().message), source});
  const fs::path target = out.empty() ? fs::path(source).replace_extension(".toml") : fs::path(out);
  if (std::error_code error; fs::exists(target, error))
    return complain({"this file already exists", target.string()});
  std::error_code error;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const fs::path relative = fs::relative(source, folder, error);
  const auto contract = contract::initial_contract(*text, error ? source : relative.string(), entry);
  if (!contract) return complain(contract.error());
  if (!write_text(target.string(), *contract)) return kWrongUse;
  fmt::print("wrote {}; complete [reference], then run `assay check {}`\n", target.string(), target.string());
  return 0;
}

}  // namespace assay::cli
