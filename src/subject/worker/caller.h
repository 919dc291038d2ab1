// Who asks: the subject's own code, a library, or the worker and its runtime.
#pragma once

#include <string>

#include "protocol/hooks.h"
#include "subject/worker/policy.h"

namespace assay::worker {

// `subject`: the library that will be loaded, by the name it is loaded under. `runtime`: any function of the
// CUDA runtime. `driver`: that of a real GPU, with its libraries, counts as the runtime.
void know_callers(const std::string& subject, const void* runtime, bool driver);

struct CallStack {
  static constexpr int kMost = 24;
  void* frames[kMost];
  int count = 0;
};

// The calls that led here, innermost first.
CallStack call_stack();

// The innermost code that is not of the C or C++ library decides. A function that ends in a call leaves no
// frame of its own: what libffi called is the subject, as is a thread that begins in libc.
Caller caller_of(const CallStack& stack);

bool is_libc(const void* code);
// Whether libc makes the system call for an end of its own (to ask for a user's name, say), not as its
// caller's wrapper.
bool is_libcs_own(const CallStack& stack);

// Makes a finding of it, once for each message. Before the runtime is there, nothing.
using HostReport = decltype(&::assay_report_host);
void report_to(HostReport hook);
void report(const Ruling& ruling, const char* what, const CallStack& stack);

}  // namespace assay::worker
