// Which defects a formula can have, and how a defective store behaves.
#pragma once

#include "reference/compiled_formula.h"
#include "reference/reference.h"

namespace assay::reference {

bool defect_applies(const CompiledFormula& compiled, const Contract& contract, const Defect& defect);
double simulated_store(DType dtype, double value_bits, const Defect& defect);

}  // namespace assay::reference
