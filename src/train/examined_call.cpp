#include "train/examined_call.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "judge/steps.h"

namespace assay::train {

using contract::Bindings;
using contract::Contract;
using contract::ScalarSpec;
using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// Of each output of a call, and terms of its sums: some tenths of a second, and enough for the statistics of the judge.
constexpr int64_t kJudgedElements = 1 << 16;
constexpr double kJudgedWork = 2e7;

struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

// The finite values that a tensor may hold. None: what else a contract says is no range.
std::optional<Range> range_of(const TensorSpec& tensor, const contract::Shape& shape) {
  const contract::Values& values = tensor.values;
  const double smallest =
      contract::is_float(tensor.dtype) ? 0x1p-14 : 1;  // normal in every float type of 16 bits and more
  switch (values.kind) {
    case ValuesKind::Real:
    case ValuesKind::Activations:
    case ValuesKind::Gradients:
    case ValuesKind::Weights:
      return Range{};
    case ValuesKind::RealRange:
      return Range{values.low, values.high};
    case ValuesKind::Positive:
      return Range{smallest, std::numeric_limits<double>::infinity()};
    case ValuesKind::Probabilities:
      return Range{0, 1};
    case ValuesKind::Mask:
      return Range{0, 1};
    case ValuesKind::Index:
    case ValuesKind::Tokens: {
      const auto count = values.a.eval(shape);
      if (!count) return std::nullopt;
      return Range{0, static_cast<double>(*count - 1)};
    }
    case ValuesKind::Integers: {
      const auto low = values.a.eval(shape), high = values.b.eval(shape);
      if (!low || !high) return std::nullopt;
      return Range{static_cast<double>(*low), static_cast<double>(*high)};
    }
    case ValuesKind::Offsets:
    case ValuesKind::Generated:
    case ValuesKind::Distinct:
    case ValuesKind::Slots:
      return std::nullopt;
  }
  return std::nullopt;
}

// The tensor with finite values moved into the range; the same one where all are in it. Null: it holds NaN or infinity, and may not.
std::shared_ptr<const Tensor> moved_into(const Range& range, bool nonfinite_allowed,
                                         const std::shared_ptr<const Tensor>& tensor) {
  std::shared_ptr<Tensor> moved;
  const bool is_float = contract::is_float(tensor->dtype);
  for (int64_t i = 0; i < tensor->count(); ++i) {
    const double value = is_float ? tensor->load(i) : static_cast<double>(tensor->load_int(i));
    if (!std::isfinite(value)) {
      if (!nonfinite_allowed) return nullptr;
      continue;
    }
    if (value >= range.low && value <= range.high) continue;
    if (!moved) moved = std::make_shared<Tensor>(*tensor);
    double legal = std::clamp(value, range.low, range.high);
    // A bound may lie between two numbers of the type: half of it does not.
    if (const double stored = contract::rounded(tensor->dtype, legal);
        stored < range.low || stored > range.high)
      legal = (range.low + range.high) / 2;
    if (is_float)
      moved->store(i, legal);
    else
      moved->store_int(i, static_cast<int64_t>(legal));
  }
  return moved ? moved : tensor;
}

double legal_scalar(const ScalarSpec& spec, double value) {
  if (spec.is_range()) return std::clamp(value, spec.low, spec.high);
  return *std::ranges::min_element(spec.values, {},
                                   [&](double allowed) { return std::abs(allowed - value); });
}

}  // namespace

Result<std::shared_ptr<const CallJudge>> CallJudge::make(const Contract& contract) {
  auto reference = reference::Reference::make(contract);
  if (!reference) return reference.error();
  return std::shared_ptr<const CallJudge>(new CallJudge(contract, std::move(*reference)));
}

std::optional<LegalCall> CallJudge::legal(Bindings bindings) const {
  bool is_moved = false;
  const bool nonfinite_allowed = contract_.require.nonfinite != contract::NonfiniteRule::Ignore;
  for (auto& [name, tensor] : bindings.inputs) {
    const TensorSpec* const spec = contract_.tensor(name);
    const auto range = spec ? range_of(*spec, bindings.shape) : std::nullopt;
    if (!range) return std::nullopt;
    const auto moved = moved_into(*range, nonfinite_allowed, tensor);
    if (!moved) return std::nullopt;
    is_moved |= moved != tensor;
    tensor = moved;
    // The slot's x[T, F] may be the contract's x[n].
    if (const auto extents = spec->extents(bindings.shape); extents && *extents != tensor->extents) {
      const auto reshaped = std::make_shared<Tensor>(*tensor);
      reshaped->extents = *extents;
      tensor = reshaped;
    }
  }
  for (auto& [name, scalar] : bindings.scalars) {
    const ScalarSpec* const spec = contract_.scalar(name);
    if (!spec) continue;
    const double value =
        contract::is_float(scalar.dtype) ? scalar.as_double() : static_cast<double>(scalar.as_int());
    scalar = contract::is_float(spec->dtype)
                 ? contract::Scalar::of(spec->dtype, legal_scalar(*spec, value))
                 : contract::Scalar::of_int(spec->dtype, std::llround(legal_scalar(*spec, value)));
  }
  return LegalCall{std::move(bindings), is_moved};
}

Examined CallJudge::judged(const LegalCall& call, const judge::Outputs& outputs, bool tensor_cores,
                           const ExamineOptions& asked) const {
  judge::Options options;
  options.tensor_cores = tensor_cores;
  options.threads = asked.threads;
  options.diagnose = asked.diagnoses;
  options.max_elements = kJudgedElements;
  options.max_work = kJudgedWork;
  auto judgement = judge::judge(contract_, reference_, call.bindings, outputs, options);
  if (!judgement) return {.elements = 0, .problem = judgement.error().text(), .findings = {}};
  if (call.is_moved && judgement->overflowing > 0)
    return {.elements = 0,
            .problem = "inputs clamped to the contract's ranges are no longer consistent: results overflow",
            .findings = {}};
  Examined examined{.elements = judgement->judged, .problem = {}, .findings = {}};
  for (Finding& finding :
       judge::diagnose(std::move(judgement->findings),
                       {.contract = &contract_, .shape = &call.bindings.shape, .apart = false}))
    if (finding.severity == Severity::Error) examined.findings.push_back(std::move(finding));
  return examined;
}

}  // namespace assay::train
