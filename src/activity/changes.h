// When device memory was taken and given back, in order.
#pragma once

#include <vector>

#include "activity/activity.h"

namespace assay::activity {

std::vector<Change> changes_of(
    const std::vector<Allocation>& allocations);  // of device memory: Activity::changes
std::vector<Change> pool_changes_of(const std::vector<Allocation>& allocations);  // of memory from pools

}  // namespace assay::activity
