// Accesses to shared memory, the block's own and that of other blocks of its cluster (race_cluster.h).
#pragma once

#include "checks/race_state.h"

namespace assay::checks {

void access_shared(RaceContext& context, const Actor& actor);
// Writes that an mbarrier counts: compared as those of the thread that issues them, remembered without a thread. As an
// acquire: they have arrived.
void copy_in_cluster(RaceContext& context, const Actor& asker);
// A block has ended: accesses of others to its memory that nothing orders before that.
void find_outlived(RaceContext& context, const vgpu::Block& block);

}  // namespace assay::checks
