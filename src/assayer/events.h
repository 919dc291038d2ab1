// What the device saw, in the words of the contract.
#pragma once

#include "assayer/attempt.h"

namespace assay::assayer {

// An event of the device as a finding: kernels by their names in the source, files as the user would name
// them, memory as elements of the contract's tensors. Nothing where it is none. Events come from the worker
// and are believed no further than that.
std::optional<Finding> read_event(const contract::Contract& contract, const trial::Trial& trial,
                                  const subject::Event& event);

// A text in what the worker sent; empty where there is none.
std::string text_at(const Json& json, const char* key);

}  // namespace assay::assayer
