// The addresses of a program's variables.
#pragma once

#include "vgpu/program.h"

namespace assay::vgpu {

// Between the addresses of two functions: a pointer that is off by a little is no function's.
inline constexpr uint64_t kFunctionStride = 1 << 20;

constexpr uint64_t align_up(uint64_t value, uint64_t align) {
  return align <= 1 ? value : (value + align - 1) / align * align;
}

// Allocates module variables and fills them; places shared, local and parameter memory of every function.
Result<void> place_variables(Program& program, Memory& memory);

}  // namespace assay::vgpu
