// Which `__shared__` variable of a kernel lies where: what findings call a place in shared memory.
//
// PTX knows a variable's name, its size and where it begins, but neither dimensions nor element type. A place
// is called "tile + 640 bytes" here, and evidence["arrays"] says so as data; whoever shows the finding and
// has the source makes an element of it (report/elements.h).
#pragma once

#include "checks/checks.h"

namespace assay::checks {

// "tile" for kernel(float*)::tile.
std::string variable_name(const std::string& symbol);

// The variable that an offset lies in; null where there is none. The last one begins at dynamic shared
// memory.
const vgpu::SharedVariable* shared_variable(const vgpu::Program& program, const vgpu::Function& kernel,
                                            uint64_t offset);

// "tile + 640 bytes", also beyond its end; "offset 640 of shared memory" where `variable` is null.
std::string describe_shared(const vgpu::SharedVariable* variable, uint64_t offset, Json& evidence);
std::string describe_shared(const vgpu::Block& block, uint64_t offset, Json& evidence);

}  // namespace assay::checks
