// Errors that two devices saw: one finding for each cause, which says what each of them shows.
#pragma once

#include <vector>

#include "finding/finding.h"

namespace assay::assayer {

inline constexpr const char *kVirtualDevice = "virtual", *kCudaDevice = "cuda";

bool is_error(const Finding& finding);
bool is_on_gpu(const Finding& finding);

// What a GPU shows of a finding of the virtual device is further evidence for it: the first of it is kept.
void add_evidence_of_gpu(Finding& seen, const Finding& real);

// The error among `seen`, of the virtual device, that has the cause of this one; null: there is none. `one_per_kind`: each
// device ended at its first failure, of which it reports one line for each kind.
Finding* same_error(std::vector<Finding>& seen, const Finding& real, bool one_per_kind);

// Errors of the GPU that are among those of the virtual device become evidence for these. Returns the others.
std::vector<Finding> join_errors(std::vector<Finding>& seen, std::vector<Finding> real, bool one_per_kind);

}  // namespace assay::assayer
