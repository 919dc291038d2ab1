#include "prove/witness.h"

#include <algorithm>

#include "trial/giant.h"
#include "trial/plan.h"
#include "trial/sparse.h"

namespace assay::prove {

namespace {

constexpr double kMostTrialBytes = 600e6;    // of a trial's tensors; larger ones take long
constexpr double kMostSparse = 64e9;         // of tensors that are mostly empty
constexpr size_t kMostOptional = 8;          // of optional tensors, at one shape
constexpr double kLeastGiantTrial = 0x1p18;  // elements: what is smaller shows at other shapes as well
// Nothing else will do: another defect of the same kernel would show as a wrong result, too.
constexpr Kind kMemoryKinds[] = {Kind::OutOfBounds};
constexpr Kind kAlignment[] = {Kind::Misaligned};
constexpr Kind kLaunch[] = {Kind::LaunchFailure};
constexpr Kind kBarrier[] = {Kind::BarrierDivergence, Kind::Deadlock};
constexpr Kind kRace[] = {Kind::DataRace};
constexpr Kind kCoverage[] = {Kind::UnwrittenOutput, Kind::Uninitialized};
// Of an index that wraps. An element is read or stored in another's place: the other one is wrong, its own is never
// written, and two threads may meet there; or the place is in no tensor. A position that wraps begins again, and its loop
// may have no end: a sample of the blocks shows that by the numbers that the loop counts with, and a call that is run whole
// by taking fifty times as long as one of half its size (assayer/hang.cpp).
constexpr Kind kElsewhere[] = {Kind::OutOfBounds, Kind::WrongResult, Kind::UnwrittenOutput, Kind::DataRace,
                               Kind::Timeout};
constexpr Kind kValues[] = {Kind::WrongResult, Kind::Nonfinite, Kind::LowPrecisionAccumulation,
                            Kind::PrecisionLoss};

constexpr std::string_view kObligationsByKind[] = {"bounds",   "alignment", "launch", "barrier",
                                                   "coverage", "race",      "values"};

// Families that push indices to the ends of what is legal: the last row alone may be the one that is wrong. Offsets have
// no such ends, but parts of any size.
constexpr trial::Family kFamilies[] = {trial::Family::Largest, trial::Family::NearTop,
                                       trial::Family::Extremes, trial::Family::OneValue};
constexpr trial::Family kFamiliesOfOffsets[] = {trial::Family::Uniform, trial::Family::EmptyParts,
                                                trial::Family::OnePart, trial::Family::Natural};
// Draws of the natural inputs where integers among them decide what a kernel does. Chosen: a group that is empty in one is
// not in all of them.
constexpr uint64_t kDraws = 4;

// A shape that is too large to fill may still be run with few rows filled.
std::string sparse_dim(const contract::Contract& contract, const contract::Shape& shape) {
  for (const trial::SparseShape& sparse : trial::sparse_shapes(contract, 1, kMostSparse)) {
    contract::Shape small = shape;
    small[sparse.dim] = contract.dim(sparse.dim)->lowest();
    const auto size = trial::size_of(contract, small);
    if (size && size->bytes < kMostTrialBytes) return sparse.dim;
  }
  return "";
}

bool has_integers(const contract::TensorSpec& tensor) {
  return contract::info(tensor.dtype).max_integer != 0;
}

bool is_offsets(const contract::TensorSpec& tensor) {
  return tensor.values.kind == contract::ValuesKind::Offsets;
}

// Scalars at the lower or the upper end of what they may be.
trial::Trial with_scalars(const contract::Contract& contract, trial::Trial trial, bool last) {
  for (const contract::ScalarSpec& scalar : contract.scalars) {
    const double value = scalar.is_range() ? (last ? scalar.high : scalar.low)
                                           : (last ? scalar.values.back() : scalar.values.front());
    trial.scalars[scalar.name] = contract::Scalar::of(scalar.dtype, value);
  }
  return trial;
}

// The same trial with each choice of the optional tensors: given is how with_scalars(…, false) leaves them.
std::vector<trial::Trial> with_optional(const contract::Contract& contract, const trial::Trial& trial) {
  std::vector<trial::Trial> trials = {trial};
  for (const contract::TensorSpec& tensor : contract.tensors) {
    if (!tensor.optional || trials.size() >= kMostOptional) continue;
    for (size_t i = 0, before = trials.size(); i < before; ++i) {
      trials.push_back(trials[i]);
      trials.back().scalars[contract::presence_of(tensor.name)] =
          contract::Scalar::of_int(contract::DType::boolean, 0);
    }
  }
  return trials;
}

// What is too large to be run whole is run by a sample of the blocks (Trial::sampled), if its inputs can be made as they
// are read. False: it cannot be run.
bool made_to_fit(const contract::Contract& contract, trial::Trial& trial) {
  const auto size = trial::size_of(contract, trial.shape);
  if (!size) return false;
  if (size->bytes <= kMostTrialBytes || !trial.sparse.empty()) return true;
  if (contract.generator || size->bytes > trial::PlanOptions{}.max_sampled_bytes) return false;
  trial.sampled = true;
  trial.condition.ordered = false;
  return true;
}

// The corners of the promise by a sample of the blocks. A value that the prover knows nothing of (a row that is computed in
// floating point) may be wrong at large shapes only, while to the solver it can be wrong anywhere, and it names a small one.
std::vector<trial::Trial> corners(const contract::Contract& contract) {
  std::vector<trial::Trial> trials;
  if (contract.generator) return trials;
  for (contract::Shape& shape :
       trial::giant_shapes(contract, kLeastGiantTrial, trial::PlanOptions{}.max_sampled_bytes)) {
    trial::Trial trial;
    trial.shape = std::move(shape);
    trial.sampled = true;
    trial.condition.ordered = false;
    trials.push_back(with_scalars(contract, std::move(trial), false));
  }
  return trials;
}

// The trials at a shape: scalars at each end, and integer inputs at theirs. Empty: it is too large to run.
std::vector<trial::Trial> trials_at(const contract::Contract& contract, const contract::Shape& shape) {
  trial::Trial plain;
  plain.shape = shape;
  const auto size = trial::size_of(contract, shape);
  if (!contract.check_shape(shape) || !size) return {};
  if (size->bytes > kMostTrialBytes) {
    plain.sparse = sparse_dim(contract, shape);
    plain.condition.ordered = false;
  }
  if (!made_to_fit(contract, plain)) return {};
  std::vector<trial::Trial> trials;
  std::vector<const contract::TensorSpec*> integers;  // inputs
  for (const contract::TensorSpec* input : contract.inputs())
    if (has_integers(*input)) integers.push_back(input);
  const auto add_families = [&](trial::Trial trial) {
    trials.push_back(trial);
    if (integers.empty()) return;
    for (size_t i = 0; i < std::size(kFamilies); ++i) {
      trial.families.clear();
      for (const contract::TensorSpec* input : integers)
        trial.families[input->name] = is_offsets(*input) ? kFamiliesOfOffsets[i] : kFamilies[i];
      trials.push_back(trial);
    }
    // Each alone: offsets of which one part has everything leave nothing to do for most of the indices that they delimit.
    for (const contract::TensorSpec* input : integers) {
      if (integers.size() == 1 || is_offsets(*input)) continue;
      trial.families = {{input->name, trial::Family::Largest}};
      trials.push_back(trial);
    }
    trial.families.clear();
    for (uint64_t draw = 1; draw < kDraws; ++draw) {
      trial.seed = plain.seed + draw;
      trials.push_back(trial);
    }
  };
  for (trial::Trial& trial : with_optional(contract, with_scalars(contract, plain, false)))
    add_families(std::move(trial));
  if (!contract.scalars.empty()) add_families(with_scalars(contract, plain, true));
  if (trial::may_be_better_aligned(contract)) {
    trials.push_back(with_scalars(contract, plain, false));
    trials.back().condition.alignment = trial::kWellAligned;
  }
  return trials;
}

}  // namespace

std::span<const Kind> kinds_of(std::string_view obligation) {
  if (obligation == "alignment") return kAlignment;
  if (obligation == "launch") return kLaunch;
  if (obligation == "barrier") return kBarrier;
  if (obligation == "coverage") return kCoverage;
  if (obligation == "race") return kRace;
  if (obligation == "values") return kValues;
  return kMemoryKinds;
}

std::string_view obligation_of(Kind kind) {
  for (const std::string_view obligation : kObligationsByKind) {
    const auto kinds = kinds_of(obligation);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return obligation;
  }
  return "";
}

namespace {

std::vector<Kind> kinds_of_any() {
  std::vector<Kind> any;
  for (const std::string_view obligation : kObligationsByKind) {
    const auto kinds = kinds_of(obligation);
    any.insert(any.end(), kinds.begin(), kinds.end());
  }
  return any;
}

std::optional<Witness> first_error(const contract::Contract& contract, std::vector<trial::Trial> trials,
                                   std::span<const Kind> kinds, const assayer::CheckOptions& options) {
  std::erase_if(trials, [&](trial::Trial& trial) { return !made_to_fit(contract, trial); });
  if (trials.empty()) return std::nullopt;
  assayer::CheckOutcome outcome = assayer::investigate(contract, trials, kinds, options);
  std::erase_if(outcome.report.findings, [](const Finding& f) { return f.severity != Severity::Error; });
  if (outcome.report.findings.empty()) return std::nullopt;
  return Witness{std::move(outcome.report.findings), std::move(outcome.report.files)};
}

// Every shape with its first trial, then with its second, …: what is seen again and again at one must not keep from the others.
std::vector<trial::Trial> trials_in_turns(const contract::Contract& contract,
                                          std::span<const contract::Shape> shapes) {
  std::vector<std::vector<trial::Trial>> at;
  size_t most = 0;
  for (const contract::Shape& shape : shapes) {
    at.push_back(trials_at(contract, shape));
    most = std::max(most, at.back().size());
  }
  std::vector<trial::Trial> trials;
  for (size_t i = 0; i < most; ++i)
    for (std::vector<trial::Trial>& here : at)
      if (i < here.size()) trials.push_back(std::move(here[i]));
  return trials;
}

// At these shapes, then at the corners of the promise.
std::vector<trial::Trial> untried(const contract::Contract& contract, std::span<const contract::Shape> shapes,
                                  const Tried& tried) {
  std::vector<trial::Trial> trials = trials_in_turns(contract, shapes);
  for (trial::Trial& trial : corners(contract)) trials.push_back(std::move(trial));
  std::erase_if(trials, [&](const trial::Trial& trial) { return tried.contains(trial::to_string(trial)); });
  return trials;
}

}  // namespace

std::optional<Witness> shown(const contract::Contract& contract, std::span<const contract::Shape> shapes,
                             std::string_view obligation, const Tried& tried,
                             const assayer::CheckOptions& options) {
  return shown_by(contract, untried(contract, shapes, tried), obligation, options);
}

std::optional<Witness> shown_by(const contract::Contract& contract, std::vector<trial::Trial> trials,
                                std::string_view obligation, const assayer::CheckOptions& options) {
  return first_error(contract, std::move(trials), kinds_of(obligation), options);
}

std::optional<Witness> shown_at_usual_shapes(const contract::Contract& contract,
                                             std::span<const contract::Shape> shapes,
                                             std::span<const std::string> refuted,
                                             const assayer::CheckOptions& options) {
  std::vector<trial::Trial> trials = trials_in_turns(contract, shapes);
  std::vector<Kind> kinds = kinds_of_any();
  std::erase_if(kinds, [&](Kind kind) {
    return std::find(refuted.begin(), refuted.end(), obligation_of(kind)) != refuted.end();
  });
  if (kinds.empty()) return std::nullopt;
  return first_error(contract, std::move(trials), kinds, options);
}

std::optional<Witness> shown_beside(const contract::Contract& contract,
                                    std::span<const contract::Shape> shapes, const contract::Shape& control,
                                    const Tried& tried, const assayer::CheckOptions& options) {
  std::vector<Kind> any = kinds_of_any();
  any.push_back(Kind::Timeout);
  std::vector<trial::Trial> small = trials_at(contract, control);
  const bool clean = !small.empty() && !first_error(contract, std::move(small), any, options);
  const std::span<const Kind> kinds = clean ? std::span<const Kind>(kElsewhere) : kMemoryKinds;
  return first_error(contract, untried(contract, shapes, tried), kinds, options);
}

}  // namespace assay::prove
