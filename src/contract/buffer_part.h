// Where one tensor lies in an allocation of several (Contract::parts_of has all of them).
#pragma once

#include "contract/contract.h"

namespace assay::contract {

Result<BufferPart> buffer_part(const TensorSpec& spec, const Shape& shape);

}  // namespace assay::contract
