// Whether two accesses to the same bytes are a race.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

bool is_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
             vgpu::Address address);

}  // namespace assay::checks
