// Functions that every kernel may call though no module defines them: vprintf, malloc, free, __assertfail.
#pragma once

#include <string_view>

#include "vgpu/warp.h"

namespace assay::vgpu {

// Runs for one lane. Arguments lie at form.input[n].from, the result at form.output[0].to of `params`.
// False: the launch has faulted.
using Builtin = bool (*)(Warp& warp, const Inst& inst, uint32_t lane, std::byte* params,
                         const CallForm& form);

// Null for a function that is not provided.
Builtin find_builtin(std::string_view name);

}  // namespace assay::vgpu
