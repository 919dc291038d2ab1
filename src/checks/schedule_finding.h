// What a launch writes depends on the order of its threads: the finding.
#pragma once

#include "finding/finding.h"
#include "vgpu/rehearsal.h"

namespace assay::checks {

// At the first line that wrote what differs.
Finding finding_of(const vgpu::ScheduleDifference& difference, const vgpu::Kernel& kernel);

}  // namespace assay::checks
