#include "cli/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace assay::cli {

namespace {

constexpr size_t kMostLines = 12;
constexpr size_t kMostPlaces = 4;      // at which an output's error enters
constexpr double kWorthNaming = 0.01;  // share of an error
constexpr double kAllOfIt = 0.99;      // … of which nothing else is left

std::string place_text(const Where& where) {
  return text_of(Where{std::filesystem::path(where.file).filename().string(), where.line});
}

// Nothing but the rounding of the elements to their own type.
bool is_last_rounding(const OutputProfile& output) {
  return output.rounded_at.line != 0 && !output.lines.empty() &&
         output.lines.front().where == output.rounded_at && output.lines.front().share > kAllOfIt;
}

void add_outputs(const Profile& profile, std::string_view prefix, std::string& text) {
  for (const OutputProfile& output : profile.outputs) {
    text += fmt::format("{}`{}`: largest error {:.3g}", prefix, output.name, output.error);
    if (output.broken > 0) text += fmt::format(", {} elements not finite", output.broken);
    if (is_last_rounding(output)) {
      text +=
          fmt::format("; it is the rounding of the result to its own type ({}), which no kernel can avoid\n",
                      place_text(output.lines.front().where));
      continue;
    }
    text += "; it enters at";
    size_t shown = 0;
    for (const LineShare& line : output.lines) {
      if (shown == kMostPlaces || line.share < kWorthNaming) break;
      text +=
          fmt::format("{} {} ({:.0f} %)", shown++ == 0 ? "" : ",", place_text(line.where), 100 * line.share);
    }
    if (output.others > kWorthNaming)
      text += fmt::format("{} lines that were not separated ({:.0f} %)", shown++ == 0 ? "" : ",",
                          100 * output.others);
    text += shown == 0 ? " no line worth naming\n" : "\n";
  }
}

std::string line_text(const LineProfile& line) {
  std::string text = fmt::format("{:>5.1f}%  {:>10.2e}  {:>9.2e}  {:>5.0f} bits  {:>12}  {:<28}  {}",
                                 100 * line.share, line.introduced, line.inherited, line.cancelled_bits,
                                 line.executions, place_text(line.where), line.operation);
  const auto count = [&](uint64_t n, const char* word) {
    if (n != 0) text += fmt::format(", {} {}", n, word);
  };
  count(line.stagnated, "additions without effect");
  count(line.overflowed, "overflowed");
  count(line.flushed, "became zero");
  return text;
}

void add_lines(const Profile& profile, std::string_view prefix, std::string& text) {
  const auto loses = [](const LineProfile& line) { return line.introduced != 0 || line.share != 0; };
  if (std::none_of(profile.lines.begin(), profile.lines.end(), loses)) {
    text += fmt::format("{}no line rounds anything: every result is exact\n", prefix);
    return;
  }
  size_t shown = 0;
  text += fmt::format("{}{:>6}  {:>10}  {:>9}  {:>10}  {:>12}  {:<28}  {}\n", prefix, "share", "introduced",
                      "inherited", "cancelled", "executions", "line", "operation");
  for (const LineProfile& line : profile.lines) {
    if (shown == kMostLines) break;
    if (!loses(line)) continue;
    ++shown;
    text += fmt::format("{}{}\n", prefix, line_text(line));
  }
  text += fmt::format(
      "{}share: of the outputs' error; introduced: typical relative error that enters there; inherited: "
      "largest relative error of an operand\n",
      prefix);
}

}  // namespace

std::string profile_text(const Profile& profile, std::string_view prefix) {
  std::string text;
  add_outputs(profile, prefix, text);
  add_lines(profile, prefix, text);
  for (const Decision& d : profile.decisions)
    text += fmt::format("{}{}: {} decided differently than without rounding errors, {} times\n", prefix,
                        place_text(d.where), d.what, d.count);
  for (const Retaken& r : profile.retaken)
    text += fmt::format("{}{}: {} could not be tracked, {} times: earlier errors are not counted\n", prefix,
                        place_text(r.where), r.operation, r.count);
  return text;
}

}  // namespace assay::cli
