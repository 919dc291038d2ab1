// What would order two accesses that race.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

// For two accesses of one launch, the earlier one first. `shared`: in shared memory.
evidence::Fix fix_for(const RaceContext& context, const Touch& before, const Touch& now, bool shared);

}  // namespace assay::checks
