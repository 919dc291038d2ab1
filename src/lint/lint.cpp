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
               std::string_view name, std::vector<Finding>& notes) {
  const Flow flow(function);
  Hits hits;
  for (const Rule rule : kRules) rule({module, flow, options}, hits);
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.at < b.at; });
  const std::string kernel = hits.empty() ? "" : plain_name(function.name);
  std::map<std::tuple<Kind, std::string, int, std::string_view>, std::size_t> known;
  for (const Hit& hit : hits) {
    const Where where = place(module, function, hit.at, name);
    const auto [it, added] = known.try_emplace({hit.kind, where.file, where.line, hit.message}, notes.size());
    if (!added) {
      ++notes[it->second].count;
      continue;
    }
    notes.push_back({.kind = hit.kind,
                     .severity = Severity::Note,
                     .where = where,
                     .evidence = evidence::Code{kernel, ptx::print(module, function, function.body[hit.at]),
                                                hit.message}});
  }
}

}  // namespace

std::vector<Finding> lint(const ptx::Module& module, const Options& options, std::string_view name) {
  std::vector<Finding> notes;
  for (const ptx::Function& function : module.functions) {
    if (!function.body.empty()) add_notes(module, function, options, name, notes);
  }
  return notes;
}

std::vector<Kind> hints(std::span<const Finding> notes) {
  std::map<Kind, int> counts;
  for (const Finding& note : notes)
    if (const auto likely = info(note.kind).likely) ++counts[*likely];
  std::vector<Kind> found;
  for (const auto& [kind, count] : counts) found.push_back(kind);
  std::stable_sort(found.begin(), found.end(), [&](Kind a, Kind b) { return counts[a] > counts[b]; });
  return found;
}

}  // namespace assay::lint
