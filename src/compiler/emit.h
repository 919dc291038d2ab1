// Emits the LLVM function of a kernel.
#pragma once

#include "compiler/flow.h"
#include "compiler/forms.h"
#include "compiler/ir.h"

namespace assay::compiler {

// Adds the function `compiled` to the module, and its entries to the object.
void emit(Ir& ir, const vgpu::CompileRequest& request, const Flow& flow, const std::vector<Form>& forms,
          vgpu::CompiledObject& object);

}  // namespace assay::compiler
