// What a race looks like to a reader.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

void report_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                 vgpu::Address address);
// A note: nothing orders the two, but the store leaves what is there.
void report_same_value(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                       vgpu::Address address);

}  // namespace assay::checks
