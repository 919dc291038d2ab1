// One trial of a subject that is built already: a library that ran elsewhere.
#pragma once

#include "assayer/assayer.h"

namespace assay::assayer {

// As replay(), which builds the subject from the contract's sources.
CheckOutcome replay_built(const contract::Contract& contract, const subject::Subject& subject,
                          const trial::Trial& trial, const CheckOptions& options);

}  // namespace assay::assayer
