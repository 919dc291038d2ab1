#include "judge/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "trial/random.h"

namespace assay::judge {

using contract::Bindings;
using contract::Contract;
using contract::Expectation;
using contract::Reference;
using contract::Tensor;
using contract::TensorSpec;

namespace {

constexpr double kScale = 4;       // its root is a power of two as well
constexpr int kMostPower = 3;      // of it that an output may go with
constexpr std::size_t kLook = 64;  // elements on which a relation is tried

std::vector<int64_t> some_elements(int64_t count, uint64_t seed) {
  trial::Random random(seed);
  std::vector<int64_t> elements = {0, count - 1};
  while (elements.size() < std::min<std::size_t>(kLook, static_cast<std::size_t>(count)))
    elements.push_back(random.between(0, count - 1));
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

std::optional<int64_t> count_of(const TensorSpec& spec, const contract::Shape& shape) {
  const auto extents = spec.extents(shape);
  if (!extents) return std::nullopt;
  int64_t count = 1;
  for (const int64_t extent : *extents) count *= extent;
  return count;
}

// The power of the scale by which `after` exceeds `before`, everywhere and to the bit: powers of two pass
// through FP64 as they do through any other precision.
std::optional<int> power_between(const Expectation& before, const Expectation& after) {
  std::optional<int> power;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!std::isfinite(before.value[i]) || !std::isfinite(after.value[i])) return std::nullopt;
    if (before.flags[i] != after.flags[i]) return std::nullopt;
    if (before.value[i] == 0 && after.value[i] == 0) continue;
    const double ratio = after.value[i] / before.value[i];
    const int here = static_cast<int>(std::lround(std::log2(std::abs(ratio)) / std::log2(kScale)));
    if (std::abs(here) > kMostPower || after.value[i] != before.value[i] * std::pow(kScale, here))
      return std::nullopt;
    if (power.value_or(here) != here) return std::nullopt;
    power = here;
  }
  return power;
}

class Finder {
 public:
  Finder(const Contract& contract, const Reference& reference, const Bindings& bindings, uint64_t seed)
      : contract_(contract), reference_(reference), bindings_(bindings), seed_(seed) {
    for (const TensorSpec* spec : contract.outputs()) {
      const auto count = count_of(*spec, bindings.shape);
      if (!count || *count == 0) continue;
      elements_[spec->name] = some_elements(*count, seed);
      auto expected = reference.expect(bindings, spec->name, elements_[spec->name]);
      if (expected) before_.emplace(spec->name, std::move(*expected));
    }
  }

  std::vector<Companion> run() {
    std::vector<Companion> found;
    for (const TensorSpec* spec : contract_.inputs())
      if (contract::is_float(spec->dtype)) add_scaled(*spec, found);
    for (const contract::Dim& dim : contract_.dims)
      if (bindings_.shape.at(dim.name) >= 2) add_others(dim.name, found);
    return found;
  }

 private:
  void add_scaled(const TensorSpec& spec, std::vector<Companion>& found) {
    const auto tensor = std::make_shared<Tensor>(*bindings_.inputs.at(spec.name));
    const numerics::Format format = contract::info(spec.dtype).format;
    for (int64_t i = 0; i < tensor->count(); ++i) {
      const double value = tensor->load(i), scaled = kScale * value;
      // Times four is exact between the ends of the range.
      if (value != 0 && !(std::abs(value) >= numerics::min_normal(format) &&
                          std::abs(scaled) < numerics::max_finite(format)))
        return;
      tensor->store(i, scaled);
    }
    Companion companion;
    companion.text = fmt::format("{} times {}", spec.name, kScale);
    companion.bindings = bindings_;
    companion.bindings.inputs[spec.name] = tensor;
    for (const TensorSpec* output : contract_.outputs()) {
      const auto before = before_.find(output->name);
      if (!contract::is_float(output->dtype) || before == before_.end()) continue;
      const auto after = reference_.expect(companion.bindings, output->name, elements_[output->name]);
      if (!after) continue;
      if (const auto power = power_between(before->second, *after)) companion.powers[output->name] = *power;
    }
    if (!companion.powers.empty()) found.push_back(std::move(companion));
  }

  // The axis of a tensor that is exactly this dim; -1: none.
  int axis_of(const TensorSpec& spec, const std::string& dim) const {
    for (std::size_t i = 0; i < spec.shape.size(); ++i)
      if (spec.shape[i].text() == dim) return static_cast<int>(i);
    return -1;
  }

  // Whether each element lies in the first half along the axis.
  static std::vector<char> first_half(const Tensor& tensor, int axis) {
    std::vector<char> first(static_cast<std::size_t>(tensor.count()));
    int64_t inner = 1;
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < tensor.extents.size(); ++i)
      inner *= tensor.extents[i];
    const int64_t extent = tensor.extents[static_cast<std::size_t>(axis)];
    for (int64_t i = 0; i < tensor.count(); ++i)
      first[static_cast<std::size_t>(i)] = i / inner % extent < extent / 2;
    return first;
  }

  void add_others(const std::string& dim, std::vector<Companion>& found) {
    Companion companion;
    companion.relation = Relation::Others;
    companion.text = fmt::format("the second half along {} with other contents", dim);
    companion.bindings = bindings_;
    bool changed = false;
    for (const TensorSpec* spec : contract_.inputs()) {
      const int axis = axis_of(*spec, dim);
      if (axis < 0 || !contract::is_float(spec->dtype)) continue;
      auto tensor = std::make_shared<Tensor>(*bindings_.inputs.at(spec->name));
      const std::vector<char> first = first_half(*tensor, axis);
      // What the second half holds, in another order: as legal as before.
      std::vector<int64_t> places;
      for (int64_t i = 0; i < tensor->count(); ++i)
        if (!first[static_cast<std::size_t>(i)]) places.push_back(i);
      for (std::size_t i = 0; i + 1 < places.size(); i += 2) {
        const double a = tensor->load(places[i]), b = tensor->load(places[i + 1]);
        changed |= a != b;
        tensor->store(places[i], b);
        tensor->store(places[i + 1], a);
      }
      companion.bindings.inputs[spec->name] = std::move(tensor);
    }
    if (!changed) return;
    for (const TensorSpec* output : contract_.outputs()) {
      const int axis = axis_of(*output, dim);
      const auto before = before_.find(output->name);
      if (axis < 0 || before == before_.end()) continue;
      const Tensor shape = Tensor::zeros(output->dtype, *output->extents(bindings_.shape));
      std::vector<char> kept = first_half(shape, axis);
      const auto after = reference_.expect(companion.bindings, output->name, elements_[output->name]);
      if (!after) continue;
      bool holds = false, broken = false;
      for (std::size_t i = 0; i < after->size(); ++i) {
        if (!kept[static_cast<std::size_t>(after->element[i])]) continue;
        holds = true;
        broken |= !(after->value[i] == before->second.value[i]);
      }
      if (holds && !broken) companion.kept[output->name] = std::move(kept);
    }
    if (!companion.kept.empty()) found.push_back(std::move(companion));
  }

  const Contract& contract_;
  const Reference& reference_;
  const Bindings& bindings_;
  uint64_t seed_;
  std::map<std::string, std::vector<int64_t>> elements_;
  std::map<std::string, Expectation> before_;
};

// Between the ends of the range, with room for what is on the way.
bool is_inside(double value, numerics::Format format) {
  const double size = std::abs(value);
  return size == 0 ||
         (size >= 0x1p24 * numerics::min_normal(format) && size <= 0x1p-8 * numerics::max_finite(format));
}

struct Difference {
  int64_t count = 0, first = -1;
  double was = 0, is = 0;
};

Finding finding_of(const Companion& companion, const Tensor& tensor, const std::string& output,
                   const Difference& difference) {
  Finding finding;
  finding.kind = "wrong-result";
  finding.severity = Severity::Warning;
  const bool scaled = companion.relation == Relation::Scaled;
  finding.message = fmt::format(
      "{}: with {}, {} elements {}, though the formula says so: {}{} is {:.9g} where {:.9g} was expected",
      output, companion.text, difference.count, scaled ? "do not scale with it" : "change that should stay",
      output, contract::coordinates(tensor.extents, difference.first), difference.is, difference.was);
  finding.evidence["output"] = output;
  finding.evidence["relation"] = scaled ? "scaled" : "others";
  finding.evidence["changed"] = companion.text;
  finding.evidence["differing"] = difference.count;
  return finding;
}

}  // namespace

std::vector<Companion> companions(const Contract& contract, const Reference& reference,
                                  const Bindings& bindings, uint64_t seed) {
  return Finder(contract, reference, bindings, seed).run();
}

std::vector<Finding> compare(const Contract& contract, const Companion& companion, const Outputs& first,
                             const Outputs& second) {
  std::vector<Finding> findings;
  for (const TensorSpec* spec : contract.outputs()) {
    const auto a = first.find(spec->name), b = second.find(spec->name);
    if (a == first.end() || b == second.end() || a->second->extents != b->second->extents) continue;
    const Tensor &before = *a->second, &after = *b->second;
    const auto power = companion.powers.find(spec->name);
    const auto kept = companion.kept.find(spec->name);
    if (power == companion.powers.end() && kept == companion.kept.end()) continue;
    const numerics::Format format = contract::info(spec->dtype).format;
    Difference difference;
    for (int64_t i = 0; i < before.count(); ++i) {
      double expected = before.load(i);
      const double stored = after.load(i);
      if (kept != companion.kept.end()) {
        if (!kept->second[static_cast<std::size_t>(i)]) continue;
        if (std::memcmp(before.at(i), after.at(i), static_cast<std::size_t>(before.item_bytes())) == 0)
          continue;
      } else {
        const double scaled = expected * std::pow(kScale, power->second);
        if (!is_inside(expected, format) || !is_inside(scaled, format) || stored == scaled) continue;
        expected = scaled;
      }
      if (std::isnan(expected) && std::isnan(stored)) continue;
      if (difference.count++ == 0) difference = {1, i, expected, stored};
    }
    if (difference.count > 0) findings.push_back(finding_of(companion, before, spec->name, difference));
  }
  return findings;
}

}  // namespace assay::judge
