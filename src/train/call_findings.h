// What a call that failed, changed an input or wrote past a tensor amounts to, as findings.
#pragma once

#include <vector>

#include "contract/contract.h"
#include "finding/finding.h"
#include "subject/runner.h"
#include "subject/subject.h"

namespace assay::train {

// Empty where the call says nothing against the kernel: it took too long or too much memory, the device cannot run it, or
// there is no such device.
std::vector<Finding> call_findings(const contract::Contract& contract, const subject::Subject& subject,
                                   const contract::Shape& shape, const subject::Observation& seen);

}  // namespace assay::train
