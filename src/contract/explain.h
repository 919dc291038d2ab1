// A resolved formula at one shape, in words.
#pragma once

#include <string>

#include "contract/program.h"

namespace assay::contract {

Result<std::string> explain_program(const Contract& contract, const Program& program, const Shape& shape);

}  // namespace assay::contract
