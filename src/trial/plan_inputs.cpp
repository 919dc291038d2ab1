#include "trial/plan_inputs.h"

#include <algorithm>

#include "trial/families.h"

namespace assay::trial {

using contract::Contract;
using contract::TensorSpec;
using contract::ValuesKind;

Families hard_sums(const Contract& contract, Family floats, Family integers) {
  const bool largest_sums = floats == Family::SameSign || integers == Family::Extremes;
  Families families;
  for (const TensorSpec* spec : contract.inputs()) {
    Family wanted = contract::is_float(spec->dtype) ? floats : integers;
    if (largest_sums && spec->values.kind == ValuesKind::Integers)
      wanted = integers == Family::Extremes ? Family::Largest : Family::NearTop;
    const std::vector<Family> known = families_for(*spec);
    families[spec->name] =
        std::find(known.begin(), known.end(), wanted) != known.end() ? wanted : known.front();
  }
  return families;
}

Families all(const Contract& contract, Family floats) {
  return hard_sums(contract, floats, Family::Uniform);
}

Families turns(const Contract& contract, uint64_t turn) {
  return turn % 2 == 0 ? Families() : all(contract, Family::SameSign);
}

}  // namespace assay::trial
