#include "lint/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/symbol.h"
#include "base/toolkit.h"
#include "lint/rules.h"

namespace assay::lint {

namespace {

using Rule = void (*)(const Subject&, Hits&);
constexpr Rule kRules[] = {find_sums,        find_atomics, find_matrices,
                           find_truncations, find_math,    find_collectives};

// From the innermost inlined line outward: the first that is the user's own.
Where place(const ptx::Module& module, uint32_t at) {
  for (int depth = 0; at != ptx::kNone && depth < 64; ++depth) {
    const ptx::SourceLocation& location = module.locations[at];
    const std::string file = location.file < module.files.size() ? module.files[location.file] : "";
    if (!file.empty() && location.line > 0 && !is_toolkit_header(file)) {
      return {file, static_cast<int>(location.line)};
    }
    at = location.inlined_at;
  }
  return {};
}

// Code that the compiler attributes to no line belongs to the line before it.
Where place(const ptx::Module& module, const ptx::Function& function, Index i, std::string_view name) {
  for (Index at = i + 1; at-- > 0;) {
    Where where = place(module, function.body[at].location);
    if (where.line > 0) return where;
  }
  return {std::string(name), static_cast<int>(function.body[i].line)};
}

void add_notes(const ptx::Module& module, const ptx::Function& function, const Options& options,
               std::string_view name, std::vector<Note>& notes) {
  const Flow flow(function);
  Hits hits;
  for (const Rule rule : kRules) rule({module, flow, options}, hits);
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.at < b.at; });
  const std::string kernel = hits.empty() ? "" : plain_name(function.name);
  std::map<std::tuple<std::string_view, std::string, int, std::string_view>, std::size_t> known;
  for (const Hit& hit : hits) {
    const Where where = place(module, function, hit.at, name);
    const auto [it, added] = known.try_emplace({hit.kind, where.file, where.line, hit.message}, notes.size());
    if (!added) {
      ++notes[it->second].count;
      continue;
    }
    notes.push_back(
        {hit.kind, kernel, ptx::print(module, function, function.body[hit.at]), where, hit.message, 1});
  }
}

}  // namespace

const std::vector<KindInfo>& kinds() {
  static const std::vector<KindInfo> table = {
      {"narrow-sum", "a sum kept in f16 or bf16 from term to term", "low-precision-accumulation"},
      {"narrow-atomic", "atomic additions in f16 or bf16", "low-precision-accumulation"},
      {"narrow-mma", "matrix products summed in f16", "low-precision-accumulation"},
      {"truncating-conversion", "a float shortened without rounding", "biased-rounding"},
      {"approximate-math", "an approximate function where the contract says standard", "precision-loss"},
      {"flushed-subnormals", "subnormals flushed where the contract says standard", "precision-loss"},
      {"partial-collective", "a warp-wide operation that may miss lanes", ""},
  };
  return table;
}

std::vector<Note> lint(const ptx::Module& module, const Options& options, std::string_view name) {
  std::vector<Note> notes;
  for (const ptx::Function& function : module.functions) {
    if (!function.body.empty()) add_notes(module, function, options, name, notes);
  }
  return notes;
}

Finding to_finding(const Note& note) {
  Finding finding;
  finding.kind = note.kind;
  finding.severity = Severity::Note;
  finding.message = note.message;
  finding.where = note.where;
  finding.evidence["kernel"] = note.kernel;
  finding.evidence["instruction"] = note.instruction;
  if (note.count > 1) finding.evidence["count"] = note.count;
  return finding;
}

std::vector<std::string> hints(const std::vector<Note>& notes) {
  std::vector<std::pair<std::string, int>> counts;
  for (const KindInfo& info : kinds()) {
    if (info.hint.empty()) continue;
    const auto found = static_cast<int>(
        std::count_if(notes.begin(), notes.end(), [&](const Note& note) { return note.kind == info.kind; }));
    if (found == 0) continue;
    const auto same = std::find_if(counts.begin(), counts.end(),
                                   [&](const auto& entry) { return entry.first == info.hint; });
    if (same == counts.end()) {
      counts.emplace_back(info.hint, found);
    } else {
      same->second += found;
    }
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> kinds_found;
  for (const auto& [kind, count] : counts) kinds_found.push_back(kind);
  return kinds_found;
}

}  // namespace assay::lint
