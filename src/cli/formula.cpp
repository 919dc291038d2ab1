// assay formula: how a contract is read.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "contract/keys.h"
#include "reference/describe.h"

namespace assay::cli {

namespace {

// Lines that are too long go on below, further to the right.
std::string within_width(const std::string& text, int width) {
  std::string out;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.size() <= static_cast<std::size_t>(width)) {
      out += line + "\n";
      continue;
    }
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()), ' ');
    std::string wrapped = report::wrapped(line, width, indent + "    ");
    if (wrapped.starts_with(indent + "    ")) wrapped.erase(0, 4);
    out += wrapped;
  }
  return out;
}

}  // namespace

int formula_command(std::vector<std::string> args) {
  Arguments arguments("Shows how Assay reads a contract: shapes, ranges, reductions, budgets.",
                      "assay formula");
  std::string path, json;
  bool schema = false;
  arguments.add("contract", path, "the contract");
  arguments.add("--json FILE", json, "write the same as JSON to this file");
  arguments.add_flag("--schema", schema, "print a JSON Schema of contracts, for editors");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (schema) {
    fmt::print("{}", contract::json_schema());
    return 0;
  }
  if (path.empty()) return complain({"name a contract, or --schema", ""});
  const auto contract = contract::load(path);
  if (!contract) return complain(contract.error());
  if (!json.empty()) {
    const auto described = reference::describe_json(*contract);
    if (!described) return complain(described.error());
    if (!write_text(json, described->dump(2) + "\n")) return kWrongUse;
  }
  const auto text = reference::describe(*contract);
  if (!text) return complain(text.error());
  fmt::print("{}", within_width(*text, terminal_options().width));
  return 0;
}

}  // namespace assay::cli
