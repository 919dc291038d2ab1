#include "report/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/chain.h"
#include "base/symbol.h"

namespace assay::report {

namespace {

constexpr std::size_t kWidest = 160;  // characters of a line of source
constexpr int kTogether = 8;          // lines apart at which two places are shown in one piece

const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

std::string text_of(const Json& json, const char* key) {
  const Json* value = member(json, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

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

// "(1,0,0)"; empty for what is no list of three numbers.
std::string triple_text(const Json* triple) {
  if (!triple || !triple->is_array() || triple->size() != 3) return "";
  std::string text;
  for (const Json& item : *triple) {
    if (!item.is_number_integer()) return "";
    text += fmt::format("{}{}", text.empty() ? "" : ",", item.get<int64_t>());
  }
  return "(" + text + ")";
}

}  // namespace

std::string excerpt(const Where& where, int around) {
  return lines_of(where.file, where.line - around, where.line + around, {where.line});
}

Where other_place(const Finding& finding) {
  const Json* other = member(finding.evidence, "other");
  if (!other) return {};
  const Json* line = member(*other, "line");
  const Where place{text_of(*other, "file"), line && line->is_number_integer() ? line->get<int>() : 0};
  const bool same = place.line == finding.where.line && place.file == finding.where.file;
  return place.file.empty() || place.line <= 0 || same ? Where{} : place;
}

std::string source_text(const Finding& finding) {
  if (finding.where.line <= 0) return "";
  const Where other = other_place(finding);
  if (other.line == 0) return excerpt(finding.where);
  if (other.file != finding.where.file)
    return excerpt(finding.where) + fmt::format("  {}:{}\n", other.file, other.line) + excerpt(other);
  const auto [low, high] = std::minmax(finding.where.line, other.line);
  if (high - low <= kTogether) return lines_of(other.file, low - 1, high + 1, {low, high});
  const Where first{other.file, low}, second{other.file, high};
  return excerpt(first) + "      ...\n" + excerpt(second);
}

std::string thread_text(const Finding& finding) {
  const std::string kernel = text_of(finding.evidence, "kernel");
  const std::string block = triple_text(member(finding.evidence, "block"));
  const std::string thread = triple_text(member(finding.evidence, "thread"));
  if (kernel.empty() || block.empty() || thread.empty()) return "";
  return fmt::format("kernel {}, block {}, thread {}", short_name(kernel), block, thread);
}

std::vector<std::string> chain_lines(const Finding& finding) {
  std::vector<std::string> lines;
  const Json* other = member(finding.evidence, "other");
  const Json* chains[] = {member(finding.evidence, "chain"), other ? member(*other, "chain") : nullptr};
  for (const Json* chain : chains)
    if (std::string text = chain ? chain_text(*chain) : "";
        !text.empty() && (lines.empty() || lines.back() != text))
      lines.push_back(std::move(text));
  return lines;
}

}  // namespace assay::report
