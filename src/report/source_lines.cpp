#include "report/source_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace assay::report {

namespace {

constexpr std::size_t kWidest = 160;  // characters of a line of source
constexpr int kTogether = 8;          // lines apart at which two places are shown in one piece

// Lines `first` to `last` of a file, some of them marked.
std::string lines_of(const std::string& path, int first, int last, const std::set<int>& marked) {
  std::ifstream file(path);
  std::string text, line;
  for (int number = 1; number <= last && std::getline(file, line); ++number) {
    if (number < first) continue;
    if (line.size() > kWidest) line.resize(kWidest);
    text += fmt::format("  {} {:>5} | {}\n", marked.contains(number) ? ">" : " ", number, line);
  }
  return text;
}

}  // namespace

std::string excerpt(const Where& where, int around) {
  return lines_of(where.file, where.line - around, where.line + around, {where.line});
}

std::string source_text(const Finding& finding) {
  if (finding.where.line <= 0) return "";
  const Where other = other_place(finding);
  if (other.line == 0) return excerpt(finding.where);
  if (other.file != finding.where.file)
    return excerpt(finding.where) + fmt::format("  {}\n", text_of(other)) + excerpt(other);
  const auto [low, high] = std::minmax(finding.where.line, other.line);
  if (high - low <= kTogether) return lines_of(other.file, low - 1, high + 1, {low, high});
  const Where first{other.file, low}, second{other.file, high};
  return excerpt(first) + "      ...\n" + excerpt(second);
}

}  // namespace assay::report
