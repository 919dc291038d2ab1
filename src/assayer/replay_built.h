// Checks of a subject that is built already: a library that ran elsewhere, or one for two devices.
#pragma once

#include "assayer/assayer.h"

namespace assay::assayer {

// As replay(), which builds the subject from the contract's sources.
CheckOutcome replay_built(const contract::Contract& contract, const subject::Subject& subject,
                          const trial::Trial& trial, const CheckOptions& options);

// As check(), and as investigate() of one trial.
CheckOutcome check_built(const contract::Contract& contract, const subject::Subject& subject,
                         const CheckOptions& options);
CheckOutcome investigate_built(const contract::Contract& contract, const subject::Subject& subject,
                               const trial::Trial& trial, const CheckOptions& options);

}  // namespace assay::assayer
