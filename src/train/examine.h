// The calls of a candidate at the states of the model (states.h), each judged by the contract.
#pragma once

#include "train/runs.h"
#include "train/states.h"

namespace assay::train {

// The calls of one state. False: a call failed (setting.failure), or the run was interrupted.
bool examine(Setting& setting, const ModelState& state, StateReport& report);

}  // namespace assay::train
