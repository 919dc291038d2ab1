#include "trial/scalars.h"

#include <algorithm>

namespace assay::trial {

namespace {

double other_value(const contract::ScalarSpec& spec, double now) {
  if (spec.is_range()) return now - spec.low > spec.high - now ? spec.low : spec.high;
  for (std::size_t i = 0; i < spec.values.size(); ++i)
    if (scalar_of(spec, spec.values[i]).as_double() == now) return spec.values[(i + 1) % spec.values.size()];
  return spec.values.front();
}

}  // namespace

contract::Scalar scalar_of(const contract::ScalarSpec& spec, double value) {
  if (contract::is_float(spec.dtype)) return contract::Scalar::of(spec.dtype, value);
  return contract::Scalar::of_int(spec.dtype, static_cast<int64_t>(value));
}

std::map<std::string, contract::Scalar, std::less<>> other_scalars(
    const contract::Contract& contract, const std::map<std::string, contract::Scalar, std::less<>>& scalars) {
  auto others = scalars;
  for (const contract::ScalarSpec& spec : contract.scalars)
    if (const auto now = others.find(spec.name); now != others.end())
      now->second = scalar_of(spec, other_value(spec, now->second.as_double()));
  return others;
}

}  // namespace assay::trial
