// Confines the subject. Called once, before any of its code is loaded.
//
// Not allowed: new processes or programs, the network, tracing or signalling other processes, privileges,
// changing owners, modes and times of files, and (where the kernel has Landlock) writing outside `folder`.
//
// On the virtual device every such system call is stopped and judged (policy.h), and so is every attempt to
// look at a file. A subject that does something forbidden ends there, and the attempt is reported as a
// finding. On a real GPU the driver needs its device files, sockets and helper threads; a refused call fails
// with EPERM.
#pragma once

#include <string>

namespace assay::worker {

// An empty string, or what could not be set up. `files_guarded` says whether the kernel has Landlock.
std::string enter_sandbox(const std::string& folder, bool real_gpu, bool& files_guarded);

// Called by a function of libc that would start a process; ends the subject where that is refused.
void refuse_process(const char* name);

}  // namespace assay::worker
