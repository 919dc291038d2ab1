// What host code did, reported by the worker itself: on a real GPU there is no runtime of ours to do it.
#pragma once

#include <string>
#include <vector>

#include "finding/finding.h"
#include "subject/worker/caller.h"

namespace assay::worker {

// Reports go to this file from now on: a pipe to the command.
void report_host_to(int file);
void report_finding(Finding finding);
// "libkernel.so+0x1234", innermost first.
std::vector<std::string> places_of(const CallStack& stack);
// For report_to() (caller.h).
void report_host(assay_host_finding kind, int is_error, const char* what, const char* why, void* const* calls,
                 int count);

}  // namespace assay::worker
