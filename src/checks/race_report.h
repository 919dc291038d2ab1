// What a race looks like to a reader.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

void report_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                 vgpu::Address address);

}  // namespace assay::checks
