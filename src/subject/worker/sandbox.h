// What the subject may not do. Called once, before any of its code is loaded.
//
// No new processes or programs, no network, no tracing of others, no signals to others, no privileges, no
// change of owners, modes and times of files; and (where the kernel has Landlock) no writing outside
// `folder`. On the virtual device every such call is stopped and judged (policy.h), and so is every look at a
// file; a subject that does what it may not ends there, and the judge is told what it tried. On a real GPU
// the driver needs its device files, sockets and helper threads, and what is refused fails with EPERM.
#pragma once

#include <string>

namespace assay::worker {

// An empty string, or what could not be set up. `files_guarded` says whether the kernel has Landlock.
std::string enter_sandbox(const std::string& folder, bool real_gpu, bool& files_guarded);

// Called by a function of libc that would start a process; ends the subject where that is refused.
void refuse_process(const char* name);

}  // namespace assay::worker
