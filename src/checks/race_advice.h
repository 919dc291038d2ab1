// What would order two accesses that race.
#pragma once

#include <string>

#include "checks/race_state.h"

namespace assay::checks {

// Two accesses of one launch, the earlier one first. `shared`: in shared memory. A part of a sentence:
// "a `__syncthreads()` between lines 12 and 14 would order them".
std::string advice(const RaceContext& context, const Touch& before, const Touch& now, bool shared);

// Between kernels, copies and fills.
inline constexpr std::string_view kOrderOperations =
    "use one stream, or `cudaEventRecord` and `cudaStreamWaitEvent`";

}  // namespace assay::checks
