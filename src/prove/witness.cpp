#include "prove/witness.h"

#include <algorithm>
#include <array>

#include "assayer/assayer.h"
#include "trial/sparse.h"

namespace assay::prove {

namespace {

constexpr double kMostBytes = 600e6;  // of a trial's tensors; larger ones take long
constexpr double kMostSparse = 64e9;  // of tensors that are mostly empty
// Nothing else will do: another defect of the same kernel would show as a wrong result, too.
constexpr Kind kMemory[] = {Kind::OutOfBounds};
constexpr Kind kAlignment[] = {Kind::Misaligned};
constexpr Kind kLaunch[] = {Kind::LaunchFailure};
constexpr Kind kBarrier[] = {Kind::BarrierDivergence, Kind::Deadlock};

// Families that push indices and offsets to the ends of what is legal.
constexpr trial::Family kFamilies[] = {trial::Family::Natural, trial::Family::NearTop,
                                       trial::Family::Extremes, trial::Family::OneValue};

// A shape that is too large to fill may still be run with few rows filled.
std::string sparse_dim(const contract::Contract& contract, const contract::Shape& shape) {
  for (const trial::SparseShape& sparse : trial::sparse_shapes(contract, 1, kMostSparse)) {
    contract::Shape small = shape;
    small[sparse.dim] = contract.dim(sparse.dim)->lowest();
    const auto size = trial::size_of(contract, small);
    if (size && size->bytes < kMostBytes) return sparse.dim;
  }
  return "";
}

}  // namespace

std::span<const Kind> kinds_of(std::string_view obligation) {
  if (obligation == "alignment") return kAlignment;
  if (obligation == "launch") return kLaunch;
  if (obligation == "barrier") return kBarrier;
  return kMemory;
}

std::optional<Finding> shown(const contract::Contract& contract, const contract::Shape& shape,
                             std::string_view obligation) {
  trial::Trial trial;
  trial.shape = shape;
  const auto size = trial::size_of(contract, shape);
  if (!contract.check_shape(shape) || !size) return std::nullopt;
  if (size->bytes > kMostBytes) {
    trial.sparse = sparse_dim(contract, shape);
    if (trial.sparse.empty()) return std::nullopt;
    trial.condition.ordered = false;
  }
  for (const contract::ScalarSpec& scalar : contract.scalars)
    trial.scalars[scalar.name] =
        contract::Scalar::of(scalar.dtype, scalar.is_range() ? scalar.low : scalar.values.front());
  const bool has_indices =
      std::any_of(contract.tensors.begin(), contract.tensors.end(), [](const auto& tensor) {
        return tensor.is_input() &&
               contract::info(tensor.dtype).min_integer != contract::info(tensor.dtype).max_integer;
      });
  for (const trial::Family family : kFamilies) {
    trial.families.clear();
    if (family != trial::Family::Natural)
      for (const contract::TensorSpec* input : contract.inputs())
        if (contract::info(input->dtype).max_integer != 0) trial.families[input->name] = family;
    if (family != trial::Family::Natural && (!has_indices || trial.families.empty())) break;
    const auto kinds = kinds_of(obligation);
    const assayer::CheckOutcome outcome = assayer::replay(contract, trial, kinds.front(), {});
    for (const Finding& finding : outcome.report.findings)
      if (finding.severity == Severity::Error &&
          std::find(kinds.begin(), kinds.end(), finding.kind) != kinds.end())
        return finding;
  }
  return std::nullopt;
}

}  // namespace assay::prove
