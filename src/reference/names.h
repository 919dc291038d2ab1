// This room is written in the words of the contract.
#pragma once

#include "contract/contract.h"

namespace assay::reference {

using namespace contract;

}  // namespace assay::reference
