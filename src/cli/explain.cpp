// assay explain: where a kernel loses precision, line by line. Accuses nobody: that is the judge's part.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "assayer/precision.h"
#include "base/interrupt.h"
#include "cli/arguments.h"
#include "cli/precision.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "shadow/shadow.h"

namespace assay::cli {

namespace {

constexpr size_t kMostLines = 12;

std::string place_text(const Json& line) {
  return fmt::format("{}:{}", std::filesystem::path(line.value("file", "")).filename().string(),
                     line.value("line", 0));
}

// Nothing but the rounding of the elements to their own type.
bool is_last_rounding(const Json& output) {
  if (!output.contains("rounded_at") || output["lines"].empty()) return false;
  const Json &at = output["rounded_at"], &first = output["lines"].front();
  return at["file"] == first["file"] && at["line"] == first["line"] && first.value("share", 0.0) > 0.99;
}

void add_outputs(const Json& profile, std::string_view prefix, std::string& text) {
  for (const Json& output : profile["outputs"]) {
    text += fmt::format("{}`{}`: largest error {:.3g}", prefix, output.value("name", ""),
                        output.value("error", 0.0));
    if (output.value("broken", 0) > 0)
      text += fmt::format(", {} elements not finite", output.value("broken", 0));
    if (const Json& lines = output["lines"]; is_last_rounding(output)) {
      text += fmt::format("; it is the rounding of the result to its own type ({}), which no kernel avoids\n",
                          place_text(lines.front()));
      continue;
    }
    text += "; it enters at";
    size_t shown = 0;
    for (const Json& line : output["lines"]) {
      if (shown == 4 || line.value("share", 0.0) < 0.01) break;
      text += fmt::format("{} {} ({:.0f} %)", shown++ == 0 ? "" : ",", place_text(line),
                          100 * line.value("share", 0.0));
    }
    if (const double others = output.value("others", 0.0); others > 0.01)
      text +=
          fmt::format("{} lines that were not told apart ({:.0f} %)", shown++ == 0 ? "" : ",", 100 * others);
    text += shown == 0 ? " no line worth naming\n" : "\n";
  }
}

void add_lines(const Json& profile, std::string_view prefix, std::string& text) {
  const auto loses = [](const Json& line) {
    return line.value("introduced", 0.0) != 0 || line.value("share", 0.0) != 0;
  };
  if (!std::any_of(profile["lines"].begin(), profile["lines"].end(), loses)) {
    text += fmt::format("{}no line rounds anything: every result is exact\n", prefix);
    return;
  }
  size_t shown = 0;
  text += fmt::format("{}{:>6}  {:>10}  {:>9}  {:>10}  {:>12}  {:<28}  {}\n", prefix, "share", "introduced",
                      "inherited", "cancelled", "executions", "line", "operation");
  for (const Json& line : profile["lines"]) {
    if (shown == kMostLines) break;
    if (!loses(line)) continue;
    ++shown;
    text += fmt::format("{}{:>5.1f}%  {:>10.2e}  {:>9.2e}  {:>5.0f} bits  {:>12}  {:<28}  {}", prefix,
                        100 * line.value("share", 0.0), line.value("introduced", 0.0),
                        line.value("inherited", 0.0), line.value("cancelled_bits", 0.0),
                        line.value("executions", uint64_t{0}), place_text(line), line.value("operation", ""));
    const auto count = [&](const char* key, const char* word) {
      if (const auto n = line.value(key, uint64_t{0})) text += fmt::format(", {} {}", n, word);
    };
    count("stagnated", "additions without effect");
    count("overflowed", "overflowed");
    count("flushed", "became zero");
    text += "\n";
  }
  text += fmt::format(
      "{}share: of the outputs' error; introduced: typical relative error that enters there; inherited: "
      "largest that its operands bring\n",
      prefix);
}

}  // namespace

std::string precision_text(const Json& profile, std::string_view prefix) {
  std::string text;
  add_outputs(profile, prefix, text);
  add_lines(profile, prefix, text);
  for (const Json& d : profile["decisions"])
    text += fmt::format("{}{}: {} decided otherwise than without rounding, {} times\n", prefix, place_text(d),
                        d.value("what", ""), d.value("count", uint64_t{0}));
  for (const Json& r : profile["retaken"])
    text += fmt::format("{}{}: {} could not be followed, {} times: errors up to there are not counted\n",
                        prefix, place_text(r), r.value("operation", ""), r.value("count", uint64_t{0}));
  return text;
}

int explain_command(std::vector<std::string> args) {
  Arguments arguments("Shows where a kernel loses precision, line by line.", "assay explain");
  std::string path, json;
  std::vector<std::string> dims;
  assayer::CheckOptions options;
  arguments.add("contract", path, "contract file").required();
  arguments.add("--shape", dims, "sizes, as N=1024; the contract's first trial has the others");
  arguments.add("--seed", options.seed, "of the inputs");
  arguments.add("--json", json, "write the profile to this file");
  if (const auto status = arguments.parse(args)) return *status;
  const auto contract = contract::load(path);
  if (!contract) {
    fmt::print(stderr, "assay: {}\n", contract.error().text());
    return kWrongUse;
  }
  contract::Shape shape;
  for (const std::string& word : dims) {
    const size_t equals = word.find('=');
    const bool known = equals != std::string::npos && contract->dim(word.substr(0, equals)) != nullptr;
    const int64_t value = known ? std::atoll(word.c_str() + equals + 1) : 0;
    if (!known || value <= 0) {
      fmt::print(stderr, "assay: --shape {}: expected a dim of the contract and a size, as N=1024\n", word);
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
  fmt::print("{}  {}\n{}", path, trial::to_string(explanation.trial),
             precision_text(explanation.profile, ""));
  if (!json.empty() && !write_text(json, explanation.profile.dump(2) + "\n")) return kWrongUse;
  return 0;
}

}  // namespace assay::cli
