// Values of scalar arguments.
#pragma once

#include "trial/trial.h"

namespace assay::trial {

contract::Scalar scalar_of(const contract::ScalarSpec& spec, double value);

// Another legal value for each scalar that has one: the next of its values, or the farther end of its range. What a call
// derives from its scalars and keeps is wrong for a call that has these.
std::map<std::string, contract::Scalar, std::less<>> other_scalars(
    const contract::Contract& contract, const std::map<std::string, contract::Scalar, std::less<>>& scalars);

}  // namespace assay::trial
