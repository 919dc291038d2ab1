// What the subject may not do. Called once, before any of its code is loaded.
//
// No new processes or programs, no network, no tracing of others, no signals to others, no privileges, no
// change of owners, modes and times of files; and (where the kernel has Landlock) no writing outside
// `folder`. On the virtual device a subject that tries ends there, and says what it tried; opening a file for
// writing elsewhere counts as a try. On a real GPU the driver needs its device files, sockets and helper
// threads, and what is refused fails with EPERM.
#pragma once

#include <string>

namespace assay::worker {

// An empty string, or what could not be set up. `files_guarded` says whether the kernel has Landlock.
std::string enter_sandbox(const std::string& folder, bool real_gpu, bool& files_guarded);

}  // namespace assay::worker
