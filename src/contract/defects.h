// Which defects a formula can have, and how a defective store behaves.
#pragma once

#include "contract/program.h"
#include "contract/reference.h"

namespace assay::contract {

bool defect_applies(const Program& program, const Contract& contract, const Defect& defect);
double simulated_store(DType dtype, double value_bits, const Defect& defect);

}  // namespace assay::contract
