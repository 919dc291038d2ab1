// The calls of a candidate at the states of a cell's model (states.h), each judged by the contract.
#pragma once

#include "train/runs.h"
#include "train/states.h"

namespace assay::train {

// The calls of one state in the cell of these tokens and this optimizer. False: a call failed (setting.failure), or the run was
// interrupted.
bool examine(Setting& setting, TokenSource source, Optimizer optimizer, const ModelState& state,
             StateReport& report);

}  // namespace assay::train
