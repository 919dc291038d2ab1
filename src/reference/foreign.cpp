#include "reference/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/python.h"

namespace assay::reference {
namespace {

// A correct kernel sums in another order than the reference does, and eight runs are few.
constexpr double kMargin = 4;

Result<Tensor> taken(const std::map<std::string, Tensor>& outputs, const std::string& name,
                     const std::vector<int64_t>& extents) {
  const auto found = outputs.find(name);
  if (found == outputs.end()) return Error{fmt::format("the reference returns no output `{}`", name)};
  if (found->second.extents != extents)
    return Error{
        fmt::format("the reference returns `{}` with a shape that differs from the contract's", name)};
  return found->second;
}

}  // namespace

// The dims that the inputs have and the output has not are summed over; any single one may be, too (a
// softmax, a scan).
double longest_sum(const Contract& contract, const Bindings& bindings, const TensorSpec& output) {
  const auto names = [](const TensorSpec& spec, const std::string& dim) {
    return std::ranges::any_of(spec.shape, [&](const IntExpr& extent) {
      const std::vector<std::string> used = extent.dims();
      return std::ranges::find(used, dim) != used.end();
    });
  };
  double summed = 1, longest = 1;
  for (const auto& [name, size] : bindings.shape) {
    const std::string& dim = name;
    longest = std::max(longest, static_cast<double>(size));
    const bool in_input =
        std::ranges::any_of(contract.inputs(), [&](const TensorSpec* in) { return names(*in, dim); });
    if (in_input && !names(output, dim)) summed *= std::max<double>(1, static_cast<double>(size));
  }
  return std::max(summed, longest);
}

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
  ForeignOutput result{std::move(*exact), {}, {}, longest_sum(contract, bindings, *contract.tensor(output))};
  for (const auto& [suffix, loss] :
       {std::pair(kSpread, &result.spread), std::pair(kLargest, &result.largest)}) {
    Result<Tensor> given = taken(outputs, output + std::string(suffix), *extents);
    if (!given) return given.error();
    *loss = std::move(*given);
  }
  return result;
}

// Sixteen to one: numbers of much the same size are rounded much alike.
static int bucket(double size) {
  return size == 0 || !std::isfinite(size) ? -400
                                           : static_cast<int>(std::floor(std::log2(std::abs(size)) / 4));
}

void ForeignBudget::Losses::add(double size, double largest_loss, double square) {
  const int at = bucket(size);
  largest[at] = std::max(largest[at], largest_loss);
  squares[at] += square;
  counts[at] += 1;
}

double ForeignBudget::Losses::largest_at(double size) const {
  const auto found = largest.find(bucket(size));
  return found == largest.end() ? 0 : found->second;
}

double ForeignBudget::Losses::square_at(double size) const {
  const auto found = squares.find(bucket(size));
  return found == squares.end() ? 0 : found->second / counts.at(found->first);
}

ForeignBudget::ForeignBudget(const ForeignOutput& output, const Precision& precision)
    : output_(output),
      u_(precision.u),
      eta_(precision.eta),
      // The working runs are in f32; other precisions lose in proportion.
      scale_(precision.u / numerics::unit_roundoff(numerics::Format::F32)) {
  for (int64_t i = 0; i < output.exact.count(); ++i) {
    const double v = output.exact.load(i), loss = output.largest.load(i) * scale_, s = spread(i);
    by_value_.add(v, loss, s * s);
    by_spread_.add(s, loss, s * s);
  }
}

double ForeignBudget::spread(int64_t element) const {
  return output_.spread.load(element) * scale_;
}

// One term after another, a sum of n terms loses about sqrt(n / 2) times what moving each of them does if
// their signs are mixed, and sqrt(n / 3) units of its value if they are alike; four is seven times the
// smaller of the two.
double ForeignBudget::bound(int64_t element) const {
  const double value = output_.exact.load(element), s = spread(element);
  if (!std::isfinite(value)) return 0;
  const double seen = std::max({by_value_.largest_at(value), by_spread_.largest_at(s), 3 * s});
  return kMargin * seen + kMargin * std::sqrt(output_.terms) * (s + u_ * std::abs(value)) + eta_;
}

double ForeignBudget::variance(int64_t element) const {
  const double value = output_.exact.load(element), s = spread(element), unit = u_ * value;
  if (!std::isfinite(value)) return 0;
  const double seen = std::max(by_value_.square_at(value), by_spread_.square_at(s));
  return 1.5625 * seen + output_.terms / 2 * (s * s + unit * unit) + eta_ * eta_;
}

}  // namespace assay::reference
