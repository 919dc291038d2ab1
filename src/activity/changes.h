// When device memory was taken and given back, in order.
#pragma once

#include <vector>

#include "activity/activity.h"

namespace assay::activity {

struct Change {
  double seconds = 0;
  uint32_t allocation = 0;  // its position
  bool is_end = false;
};

// Memory that is given back makes room for what is allocated at the same instant.
std::vector<Change> changes_of(const Activity& activity);
std::vector<Change> pool_changes_of(const Activity& activity);  // of memory from pools

}  // namespace assay::activity
