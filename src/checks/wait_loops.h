// Loads that threads poll: whether the code waits for what they read.
#pragma once

#include <cstdint>

#include "vgpu/code.h"

namespace assay::checks {

// Whether the load at body[load] is part of a wait loop: what it reads decides whether the innermost loop around it
// goes on, and is not stored in that loop. `while (!flag) …` is one; a step of a reduction is none.
bool is_awaited(const ptx::Function& function, uint32_t load);

}  // namespace assay::checks
