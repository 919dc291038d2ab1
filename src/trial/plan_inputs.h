// Families of inputs that the stages of a plan share.
#pragma once

#include <map>
#include <string>

#include "contract/contract.h"
#include "trial/trial.h"

namespace assay::trial {

using Families = std::map<std::string, Family, std::less<>>;

// The families that make sums long and hard, as far as each input knows them.
Families hard_sums(const contract::Contract& contract, Family floats, Family integers);

Families all(const contract::Contract& contract, Family floats);

// For sizes of which each is tried once: a missing term is lost among terms of both signs, and shows among
// terms of one; a softmax of large scores shows nothing else. So they take turns.
Families turns(const contract::Contract& contract, uint64_t turn);

}  // namespace assay::trial
