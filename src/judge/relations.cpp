#include "judge/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "judge/choices.h"
#include "judge/numbers.h"

namespace assay::judge {

using contract::Bindings;
using contract::Contract;
using contract::Tensor;
using reference::Reference;

namespace {

constexpr std::size_t kMostConfirmed = 256;  // differing elements that the reference is asked about; chosen
// How far inside the range of its format a number is for relations to be exact: times the smallest normal
// number, and of the largest. Room for what is on the way to it; chosen.
constexpr double kAboveSmallest = 0x1p24, kBelowLargest = 0x1p-8;

bool is_of_values(Relation relation) {
  return relation == Relation::Scaled || relation == Relation::Negated;
}

bool is_declared(const Contract& contract, const Companion& companion) {
  const std::vector<std::string>& dims = contract.require.batch_invariant;
  return std::find(dims.begin(), dims.end(), companion.dim) != dims.end();
}

// Between the ends of the range, with room for what is on the way.
bool is_inside(double value, numerics::Format format) {
  const double size = std::abs(value);
  return size == 0 || (size >= kAboveSmallest * numerics::min_normal(format) &&
                       size <= kBelowLargest * numerics::max_finite(format));
}

bool same_bits(const Tensor& a, int64_t at, const Tensor& b, int64_t bt) {
  return std::memcmp(a.at(at), b.at(bt), static_cast<std::size_t>(a.item_bytes())) == 0;
}

// Elements of the second call that are not what the first makes of them.
std::vector<int64_t> differing(const Companion& companion, const Correspondence& kept, const Tensor& before,
                               const Tensor& after) {
  const numerics::Format format = contract::info(after.dtype).format;
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < after.count(); ++i) {
    const int64_t from = kept.from[static_cast<std::size_t>(i)];
    if (from < 0 || from >= before.count()) continue;
    const double was = before.load(from), is = after.load(i);
    if (std::isnan(was) && std::isnan(is)) continue;
    if (is_of_values(companion.relation)) {
      const double wanted = kept.factor * was;
      if (!is_inside(was, format) || !is_inside(wanted, format) || is == wanted) continue;
    } else if (same_bits(before, from, after, i)) {
      continue;
    }
    elements.push_back(i);
  }
  return elements;
}

// Those of which the reference says that they correspond. A result that was rounded to zero says nothing of one that is
// larger: the exact values must be within the range of the format, too.
std::vector<int64_t> confirmed(const Reference& reference, const Bindings& bindings,
                               const Companion& companion, const std::string& output,
                               const Correspondence& kept, std::vector<int64_t> elements) {
  elements.resize(std::min(elements.size(), kMostConfirmed));
  std::vector<int64_t> from;
  for (const int64_t element : elements) from.push_back(kept.from[static_cast<std::size_t>(element)]);
  const auto before = reference.expect(bindings, output, from);
  const auto after = reference.expect(companion.bindings, output, elements);
  if (!before || !after) return {};
  std::vector<int64_t> sure;
  const numerics::Format format = contract::info(after->dtype).format;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bool in_range = !is_of_values(companion.relation) ||
                          (is_inside(before->value[i], format) && is_inside(after->value[i], format));
    if (in_range && after->value[i] == kept.factor * before->value[i]) sure.push_back(elements[i]);
  }
  return sure;
}

}  // namespace

std::string_view to_string(Relation relation) {
  constexpr std::string_view kNames[] = {"scaled", "negated", "others",  "permuted",
                                         "split",  "padded",  "reseeded"};
  return kNames[static_cast<std::size_t>(relation)];
}

std::vector<Finding> compare(const Contract& contract, const Reference& reference, const Bindings& bindings,
                             const Companion& companion, const Outputs& first, const Outputs& second) {
  if (companion.relation == Relation::Reseeded)
    return compare_draws(reference, bindings, companion.bindings, first, second);
  std::vector<Finding> findings;
  const bool declared = is_declared(contract, companion);
  const bool bits = declared || is_of_values(companion.relation) || companion.relation == Relation::Others;
  if (!bits) return findings;
  for (const auto& [name, kept] : companion.outputs) {
    const auto a = first.find(name), b = second.find(name);
    if (a == first.end() || b == second.end()) continue;
    if (b->second->count() != static_cast<int64_t>(kept.from.size())) continue;
    const Tensor &before = *a->second, &after = *b->second;
    std::vector<int64_t> elements = differing(companion, kept, before, after);
    if (elements.empty()) continue;
    const std::size_t count = elements.size();
    const std::vector<int64_t> sure =
        confirmed(reference, bindings, companion, name, kept, std::move(elements));
    if (sure.empty()) continue;
    const int64_t at = sure.front();
    const int64_t confirmed_count = static_cast<int64_t>(sure.size() < kMostConfirmed ? sure.size() : count);
    const double expected = kept.factor * before.load(kept.from[static_cast<std::size_t>(at)]);
    evidence::Numeric numeric{.output = name};
    numeric.difference = evidence::Difference{std::string(to_string(companion.relation)),
                                              companion.text,
                                              declared ? companion.dim : "",
                                              confirmed_count,
                                              contract::index_of(after.extents, at),
                                              element_text(after, at),
                                              number_text(after.dtype, expected)};
    findings.push_back({.kind = declared ? Kind::Nondeterministic : Kind::WrongResult,
                        .severity = declared ? Severity::Error : Severity::Warning,
                        .evidence = std::move(numeric)});
  }
  return findings;
}

}  // namespace assay::judge
