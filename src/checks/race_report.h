// Findings of the race check: collects the evidence of two accesses that nothing orders.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

void report_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                 vgpu::Address address);
// A note: nothing orders the two, but the store leaves what is there.
void report_same_value(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                       vgpu::Address address);

// Nothing makes sure that the block whose shared memory this is has begun.
void report_early(RaceContext& context, const Actor& actor);
// A block has ended; nothing orders this access to its shared memory, by another block of the cluster, before
// that.
void report_outlived(RaceContext& context, const vgpu::Block& owner, const SharedShadow::Outside& access);

// Where a kernel and the host talk through memory, nothing is said of the two: a kernel that sets a flag
// which the host polls orders all that came before it, and one that polls a flag what comes after. So what
// the host did beside a grid is reported when the grid has ended. Both under the context's mutex.
void begin_to_talk(RaceContext& context, const Operation& grid);
void end_with_host(RaceContext& context, const Operation& grid);

}  // namespace assay::checks
