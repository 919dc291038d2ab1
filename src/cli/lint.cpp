// assay lint: what the PTX of a kernel says before anything runs.
#include "lint/lint.h"

#include <fmt/format.h>

#include <algorithm>

#include "assayer/locate.h"
#include "base/diagnostic.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "contract/contract.h"
#include "finding/json.h"
#include "finding/message.h"
#include "subject/device_code.h"

namespace assay::cli {

namespace {

// One text of PTX, and how it is to be read.
struct Code {
  std::string ptx;
  std::string name;
  lint::Options options;
};

Result<std::string> read_text(const std::string& path) {
  auto text = read_file(path);
  if (!text) return Error{fmt::format("this file cannot be read: {}", text.error().message), path};
  return text;
}

Result<Code> code_of(const std::string& path, const std::string& arch, const std::vector<std::string>& flags,
                     bool fast_math) {
  const bool is_ptx = path.ends_with(".ptx");
  if (auto own = read_text(path); !own) return own.error();
  auto text = is_ptx ? read_text(path) : subject::compile_to_ptx(path, arch, flags);
  if (!text) return text.error();
  return Code{std::move(*text), path, {.fast_math = fast_math}};
}

Result<std::vector<Code>> codes_of_contract(const std::string& path) {
  const auto contract = contract::load(path);
  if (!contract) return contract.error();
  const bool fast = contract->reference.math == contract::Math::Fast;
  std::vector<Code> codes;
  for (const std::string& source : contract->kernel.sources) {
    auto code = code_of(contract->resolve(source), contract->kernel.arch, contract->kernel.flags, fast);
    if (!code) return code.error();
    codes.push_back(std::move(*code));
  }
  return codes;
}

Json notes_json(const std::vector<Finding>& notes) {
  Json list = Json::array();
  for (const Finding& note : notes) {
    const auto& code = std::get<evidence::Code>(note.evidence);
    list.push_back({{"kind", to_string(note.kind)},
                    {"message", message(note)},
                    {"where", {{"file", note.where.file}, {"line", note.where.line}}},
                    {"kernel", code.kernel},
                    {"instruction", code.instruction},
                    {"count", note.count}});
  }
  return {{"assay", "1"}, {"notes", list}};
}

void print(const Finding& note) {
  const auto& code = std::get<evidence::Code>(note.evidence);
  fmt::print("{}: {}\n", text_of(note.where), to_string(note.kind));
  fmt::print("  {}\n", message(note));
  fmt::print("{}", report::excerpt(note.where, 0));
  fmt::print("  in {}: {}{}\n\n", code.kernel, code.instruction,
             note.count > 1 ? fmt::format("  ({} times)", note.count) : "");
}

}  // namespace

int lint_command(std::vector<std::string> args) {
  Arguments arguments("Looks at a kernel's PTX, without running it, for code that is often a mistake.",
                      "assay lint");
  std::vector<std::string> paths, flags;
  std::string json, math = "standard", arch = "sm_90";
  arguments.add("file", paths, "CUDA C++ (.cu), PTX (.ptx) or contracts (.toml)").required();
  arguments.add("--json FILE", json, "write the notes to this file");
  arguments
      .add("--math", math, "math mode if there is no contract; a contract's own setting takes precedence")
      .one_of({"standard", "fast"});
  arguments.add("--arch sm_NN", arch, "architecture for CUDA C++ without a contract");
  arguments.add("--flag FLAG", flags, "a compiler flag, such as --flag=-DN=4; may be repeated");
  if (const auto status = arguments.parse(std::move(args))) return *status;

  std::vector<Code> codes;
  for (const std::string& path : paths) {
    Result<std::vector<Code>> found = std::vector<Code>{};
    if (path.ends_with(".toml")) {
      found = codes_of_contract(path);
    } else if (path.ends_with(".cu") || path.ends_with(".ptx")) {
      auto code = code_of(path, arch, flags, math == "fast");
      if (code) {
        found->push_back(std::move(*code));
      } else {
        found = code.error();
      }
    } else {
      found = Error{"neither CUDA C++ (.cu), nor PTX (.ptx), nor a contract (.toml)", path};
    }
    if (!found) return complain(found.error());
    for (Code& code : *found) codes.push_back(std::move(code));
  }
  std::vector<Finding> notes;
  for (const Code& code : codes) {
    const auto module = ptx::parse(code.ptx, code.name);
    if (!module) {
      Error error = module.error();
      error.source_line = line_of(code.ptx, error.line);
      fmt::print(stderr, "{}\n", diagnostic(error));
      return kWrongUse;
    }
    for (Finding& note : lint::lint(*module, code.options, code.name)) {
      note.where.file = assayer::shown(note.where.file);
      notes.push_back(std::move(note));
    }
  }
  for (const Finding& note : notes) print(note);
  fmt::print("{} in {} file{}\n", notes.size() == 1 ? "1 note" : fmt::format("{} notes", notes.size()),
             codes.size(), codes.size() == 1 ? "" : "s");
  if (!json.empty() && !write_text(json, notes_json(notes).dump(2) + "\n")) return kWrongUse;
  return 0;
}

}  // namespace assay::cli
