#include "contract/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "contract/python.h"

namespace assay::contract {
namespace {

// A correct kernel sums in another order than the reference does.
constexpr double kMargin = 4;

Result<Tensor> taken(const std::map<std::string, Tensor>& outputs, const std::string& name,
                     const std::vector<int64_t>& extents) {
  const auto found = outputs.find(name);
  if (found == outputs.end()) return Error{fmt::format("the reference gives no output '{}'", name)};
  if (found->second.extents != extents)
    return Error{fmt::format("the reference gives '{}' with another shape than the contract", name)};
  return found->second;
}

}  // namespace

Result<std::map<std::string, Tensor>> run_foreign(const Contract& contract, const Bindings& bindings,
                                                  const ReferenceProvider& provider) {
  if (contract.reference.kind == ReferenceKind::Cuda && !provider)
    return Error{"a cuda reference is not available here: it runs on a device", contract.path};
  return provider ? provider(contract, bindings) : run_python(contract, bindings);
}

Result<ForeignOutput> foreign_output(const Contract& contract, const Bindings& bindings,
                                     const std::map<std::string, Tensor>& outputs,
                                     const std::string& output) {
  Result<std::vector<int64_t>> extents = contract.tensor(output)->extents(bindings.shape);
  if (!extents) return extents.error();
  Result<Tensor> exact = taken(outputs, output, *extents);
  if (!exact) return exact.error();
  ForeignOutput result{std::move(*exact), {}, false};
  if (outputs.contains(output + "@working")) {
    Result<Tensor> working = taken(outputs, output + "@working", *extents);
    if (!working) return working.error();
    result.working = std::move(*working);
    result.has_working = true;
  }
  return result;
}

// Sixteen to one: results of much the same size are rounded much alike.
int ForeignBudget::bucket(double value) {
  return value == 0 || !std::isfinite(value) ? -400
                                             : static_cast<int>(std::floor(std::log2(std::abs(value)) / 4));
}

ForeignBudget::ForeignBudget(const ForeignOutput& output, const Precision& precision)
    : u_(precision.u), eta_(precision.eta) {
  if (!output.has_working) return;
  std::map<int, double> counts;
  // The working run is in f32; other precisions lose in proportion.
  const double scale = precision.u / numerics::unit_roundoff(numerics::Format::F32);
  for (int64_t i = 0; i < output.exact.count(); ++i) {
    const double v = output.exact.load(i), error = std::abs(output.working.load(i) - v) * scale;
    if (!std::isfinite(error)) continue;
    const int at = bucket(v);
    largest_[at] = std::max(largest_[at], error);
    squares_[at] += error * error;
    counts[at] += 1;
  }
  for (auto& [at, sum] : squares_) sum /= counts[at];
}

double ForeignBudget::bound(double value) const {
  if (!std::isfinite(value)) return 0;
  const auto found = largest_.find(bucket(value));
  return kMargin * (found == largest_.end() ? 0 : found->second) + 8 * u_ * std::abs(value) + eta_;
}

double ForeignBudget::variance(double value) const {
  if (!std::isfinite(value)) return 0;
  const auto found = squares_.find(bucket(value));
  const double floor = u_ * value;
  return (found == squares_.end() ? 0 : 1.5625 * found->second) + floor * floor;
}

}  // namespace assay::contract
