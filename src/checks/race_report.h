// Findings of the race check: collects the evidence of two accesses that nothing orders.
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

void report_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                 vgpu::Address address);
// A note: nothing orders the two, but the store leaves what is there.
// A bulk copy reads what a thread has written without a proxy fence in between.
void report_unfenced(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                     vgpu::Address address);
void report_same_value(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                       vgpu::Address address);

// The block whose shared memory this is may not have started.
void report_early(RaceContext& context, const Actor& actor);
// A block has ended; nothing orders this access to its shared memory, by another block of the cluster, before
// that.
void report_outlived(RaceContext& context, const vgpu::Block& owner, const SharedShadow::Outside& access);

// A kernel and the host may synchronise through memory: a kernel that sets a flag which the host polls orders what
// came before it, and one that polls a flag what comes after. Such orders are not followed, so no race between the
// two is reported. Whether a grid does that is known when it has ended; conflicts with the host wait until then.
// Both functions are called under the context's mutex.
void note_host_sync(RaceContext& context, const Operation& grid);
void end_with_host(RaceContext& context, const Operation& grid);

}  // namespace assay::checks
