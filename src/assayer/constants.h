// The integers with which a subject's code compares sizes, from its PTX and its source files.
#pragma once

#include "base/size_constants.h"
#include "contract/contract.h"
#include "subject/subject.h"

namespace assay::assayer {

SizeConstants read_constants(const contract::Contract& contract, const subject::Subject& subject);

}  // namespace assay::assayer
