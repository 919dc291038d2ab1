#include "judge/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "judge/numbers.h"

namespace assay::judge {

using contract::Bindings;
using contract::Contract;
using contract::Reference;
using contract::Tensor;
using contract::TensorSpec;

namespace {

constexpr std::size_t kMostConfirmed = 256;  // differing elements that the reference is asked about

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
  return size == 0 ||
         (size >= 0x1p24 * numerics::min_normal(format) && size <= 0x1p-8 * numerics::max_finite(format));
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

// Those of which the reference says that they correspond.
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
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (after->value[i] == kept.factor * before->value[i]) sure.push_back(elements[i]);
  return sure;
}

constexpr std::string_view kBroken[] = {"do not scale with it",    "do not change sign with it",
                                        "change that should stay", "do not move with their slice",
                                        "change that should stay", "change that should stay"};

Finding finding_of(const Companion& companion, bool declared, const std::string& output, std::size_t count,
                   const std::string& element, const std::string& is, const std::string& was) {
  Finding finding;
  finding.kind = declared ? "nondeterministic" : "wrong-result";
  finding.severity = declared ? Severity::Error : Severity::Warning;
  finding.message =
      fmt::format("{}: with {}, {} elements {}, though {}: {}{} is {} where {} was expected", output,
                  companion.text, count, kBroken[static_cast<std::size_t>(companion.relation)],
                  declared ? fmt::format("the contract says batch_invariant along {}", companion.dim)
                           : std::string("the formula says so"),
                  output, element, is, was);
  finding.evidence["output"] = output;
  finding.evidence["relation"] = to_string(companion.relation);
  finding.evidence["changed"] = companion.text;
  finding.evidence["differing"] = count;
  return finding;
}

}  // namespace

std::string_view to_string(Relation relation) {
  constexpr std::string_view kNames[] = {"scaled", "negated", "others", "permuted", "split", "padded"};
  return kNames[static_cast<std::size_t>(relation)];
}

std::vector<Finding> compare(const Contract& contract, const Reference& reference, const Bindings& bindings,
                             const Companion& companion, const Outputs& first, const Outputs& second) {
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
    findings.push_back(finding_of(companion, declared, name,
                                  sure.size() < kMostConfirmed ? sure.size() : count,
                                  contract::coordinates(after.extents, at), element_text(after, at),
                                  number_text(after.dtype, kept.factor * before.load(kept.from[static_cast<std::size_t>(at)]))));
  }
  return findings;
}

}  // namespace assay::judge
