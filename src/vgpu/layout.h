// Where a program's variables lie.
#pragma once

#include "vgpu/program.h"

namespace assay::vgpu {

// Allocates module variables and fills them; places shared, local and parameter memory of every function.
Result<void> place_variables(Program& program, Memory& memory);

}  // namespace assay::vgpu
