// Emits the LLVM function of a kernel.
#pragma once

#include "compiler/flow.h"
#include "compiler/forms.h"
#include "compiler/ir.h"

namespace assay::compiler {

// Adds the function `compiled` to the module; returns its entries, by number: Inst::index.
std::vector<uint32_t> emit(Ir& ir, const vgpu::CompileRequest& request, const Flow& flow,
                           const std::vector<Form>& forms);

}  // namespace assay::compiler
