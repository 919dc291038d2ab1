// Confines the subject. Called once, before any of its code is loaded.
//
// Not allowed: new processes or programs, the network, tracing or signalling other processes, privileges,
// changing owners, modes and times of files, and (where the kernel has Landlock) writing outside `folder`.
//
// Every such system call is stopped and judged (policy.h), and so is every attempt to look at a file. A subject that
// does something forbidden ends there, and the attempt is reported as a finding. On a real GPU the driver needs its
// device files and sockets: what its libraries ask for is let through, and the threads that it started before are not
// filtered at all.
//
// A Python subject is confined by the kernel alone, because compilers that it starts inherit the rules and
// cannot be made to judge their own calls: refused calls fail with EPERM, and Landlock confines what is read
// as well as what is written.
#pragma once

#include <string>
#include <vector>

namespace assay::worker {

struct Confinement {
  // Who makes system calls beside the subject, and so what must work.
  enum class Who : unsigned char {
    Library,      // none
    Driver,       // of a real GPU
    Interpreter,  // Python, torch, and the compilers that they start
    Witnessed,    // the driver, and a tool that observes it: files are guarded, and nothing else
  };
  std::string folder;  // the only place that the subject may write to
  Who who = Who::Library;
  std::string build_folder{};         // of an interpreter: it may write here, too
  std::vector<std::string> hidden{};  // files and folders that an interpreter may not read
};

// An empty string, or what could not be set up. `files_guarded` says whether the kernel has Landlock.
std::string enter_sandbox(const Confinement& confinement, bool& files_guarded);

// Called by a function of libc that would start a process; ends the subject where that is refused.
void refuse_process(const char* name);

}  // namespace assay::worker
