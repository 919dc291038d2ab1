#include "reference/defects.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/accumulator.h"
#include "reference/evaluation.h"

namespace assay::reference {
namespace {

constexpr Kind kLow = Kind::LowPrecisionAccumulation;
constexpr Kind kLoss = Kind::PrecisionLoss;
constexpr Kind kWrong = Kind::WrongResult;

// The table of diagnosis. The order is that of belief: what leaves a sharper trace
// comes first.
const Defect kDefects[] = {
    {.name = "bf16-accumulator",
     .kind = kLow,
     .description = "the running sum were kept in bf16",
     .accumulator = DType::bf16},
    {.name = "f16-accumulator",
     .kind = kLow,
     .description = "the running sum were kept in f16",
     .accumulator = DType::f16},
    {.name = "bf16-lanes",
     .kind = kLow,
     .description = "each thread's partial sum were kept in bf16",
     .accumulator = DType::bf16,
     .partials = DType::bf16},
    {.name = "bf16-partials",
     .kind = kLow,
     .description = "partial sums were stored in bf16",
     .partials = DType::bf16},
    {.name = "f16-partials",
     .kind = kLow,
     .description = "partial sums were stored in f16",
     .partials = DType::f16},
    {.name = "bf16-reduction-result",
     .kind = kLoss,
     .description = "the result of a reduction were rounded to bf16",
     .reduced = DType::bf16},
    {.name = "f16-reduction-result",
     .kind = kLoss,
     .description = "the result of a reduction were rounded to f16",
     .reduced = DType::f16},
    {.name = "one-pass-variance",
     .kind = kLoss,
     .description = "the variance were the mean of squares minus the square of the mean",
     .one_pass_variance = true},
    {.name = "one-pass-variance-in-parts",
     .kind = kLoss,
     .description = "the variance were the mean of squares minus the square of the mean",
     .partial_terms = 32,
     .one_pass_variance = true},
    {.name = "no-max-subtraction",
     .kind = Kind::Nonfinite,
     .description = "the maximum were not subtracted before exp",
     .no_max_subtraction = true},
    {.name = "bf16-intermediates",
     .kind = kLoss,
     .description = "intermediate values were rounded to bf16",
     .intermediates = DType::bf16},
    {.name = "f16-intermediates",
     .kind = kLoss,
     .description = "intermediate values were rounded to f16",
     .intermediates = DType::f16},
    {.name = "truncating-store",
     .kind = Kind::BiasedRounding,
     .description = "the store truncated instead of rounding",
     .truncating_store = true},
    {.name = "truncating-sum",
     .kind = Kind::BiasedRounding,
     .description = "every addition rounded toward zero",
     .truncating_sum = true},
    {.name = "lost-last-term",
     .kind = kWrong,
     .description = "the last term of the reduction were left out",
     .dropped_terms = 1},
    {.name = "lost-tail-of-8",
     .kind = kWrong,
     .description = "the last 8 terms of the reduction were left out",
     .dropped_terms = 8},
    {.name = "lost-tail-of-32",
     .kind = kWrong,
     .description = "the last 32 terms of the reduction were left out",
     .dropped_terms = 32},
    {.name = "lost-half",
     .kind = kWrong,
     .description = "half of the terms of the reduction were left out",
     .dropped_fraction = 2},
    {.name = "divisor-less-one",
     .kind = kWrong,
     .description = "the mean were divided by n - 1",
     .divisor_offset = -1},
    {.name = "divisor-plus-one",
     .kind = kWrong,
     .description = "the mean were divided by n + 1",
     .divisor_offset = 1},
    {.name = "hidden-nan", .kind = Kind::Nonfinite, .description = "NaN were skipped", .hides_nan = true},
    {.name = "approximate-math",
     .kind = kLoss,
     .description = "fast, approximate functions were used",
     .approximate_math = true},
};

bool any_definition(const CompiledFormula& compiled, bool (*holds)(const Definition&)) {
  return std::ranges::any_of(compiled.definitions, holds);
}

bool is_long_sum(const Definition& made) {
  return (made.reduce == Reduce::Sum || made.reduce == Reduce::Mean) && !made.reduced.empty() &&
         made.type() == Type::Float;
}

bool has_function(const Definition& made) {
  return std::ranges::any_of(made.nodes, [](const Node& n) { return n.op >= Op::Exp && n.op <= Op::Cos; });
}

bool has_extreme(const Definition& made) {
  return made.reduce == Reduce::Max || made.reduce == Reduce::Min ||
         std::ranges::any_of(made.nodes, [](const Node& n) {
           return (n.op == Op::Max || n.op == Op::Min) && n.type == Type::Float;
         });
}

bool has_shift(const Definition& made) {
  return std::ranges::any_of(made.nodes, [](const Node& n) { return n.op == Op::Shift; });
}

bool has_shifted_exp(const Definition& made) {
  return std::ranges::any_of(made.nodes, [&](const Node& n) {
    return (n.op == Op::Exp || n.op == Op::Exp2) && made.nodes[static_cast<std::size_t>(n.a)].op == Op::Sub;
  });
}

}  // namespace

std::span<const Defect> defects() {
  return kDefects;
}

bool defect_applies(const CompiledFormula& compiled, const Contract& contract, const Defect& defect) {
  const bool sums = any_definition(compiled, is_long_sum);
  const bool narrower =
      !defect.accumulator || info(*defect.accumulator).bytes < info(contract.reference.accumulate).bytes;
  if (!narrower) return false;
  if (defect.accumulator || defect.partials || defect.reduced || defect.truncating_sum ||
      defect.dropped_terms > 0 || defect.dropped_fraction > 0)
    return sums;
  if (defect.divisor_offset != 0)
    return any_definition(compiled, [](const Definition& made) { return made.reduce == Reduce::Mean; });
  if (defect.one_pass_variance) return any_definition(compiled, Evaluator::is_variance);
  if (defect.no_max_subtraction)
    return any_definition(compiled, has_shift) ||
           (any_definition(compiled, has_shifted_exp) && any_definition(compiled, has_extreme));
  if (defect.hides_nan) return any_definition(compiled, has_extreme);
  if (defect.approximate_math)
    return contract.reference.math == Math::Standard && any_definition(compiled, has_function);
  return true;
}

double simulated_store(DType dtype, double value, const Defect& defect) {
  if (!is_float(dtype)) return static_cast<double>(std::bit_cast<int64_t>(value));
  if (defect.hides_nan && std::isnan(value)) return 0;
  if (!defect.truncating_store) return rounded(dtype, value);
  const auto saturation = info(dtype).saturates ? numerics::Saturation::Finite : numerics::Saturation::None;
  return numerics::to_double(
      info(dtype).format,
      numerics::from_double(info(dtype).format, value, numerics::Rounding::TowardZero, saturation));
}

}  // namespace assay::reference
