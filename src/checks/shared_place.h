// Which `__shared__` variable of a kernel lies where: how findings name a place in shared memory.
//
// PTX knows a variable's name, its size and where it begins, but neither dimensions nor element type: a place
// is a variable and an offset in bytes. The report, which has the source, turns it into an element
// (report/elements.h).
#pragma once

#include "checks/checks.h"

namespace assay::checks {

// "tile" for kernel(float*)::tile.
std::string variable_name(const std::string& symbol);

// The variable that an offset lies in; null where there is none. The last one begins at dynamic shared
// memory.
const vgpu::SharedVariable* shared_variable(const vgpu::Program& program, const vgpu::Function& kernel,
                                            uint64_t offset);

// The variable and the offset from its start, also beyond its end; none where the place lies before it, or
// where `variable` is null.
std::optional<evidence::SharedArray> array_at(const vgpu::SharedVariable* variable, uint64_t offset);
// A place in the shared memory of a block.
evidence::Place shared_place_of(const vgpu::Block& block, uint64_t offset);

}  // namespace assay::checks
