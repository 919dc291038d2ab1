// Intercepts system calls whose arguments point into the host range (vgpu/host_range.h).
//
// A system call that meets a closed page (host_watch.h) would fail with EFAULT. So the kernel is asked, by
// seccomp with a user notification, to stop calls that have an address of the range among their arguments. A
// thread of this library works out what the call will touch, has it opened, and lets the call continue in the
// thread that made it. Calls whose addresses lie in memory (readv, sendmsg) are stopped wherever libc makes
// them. The filter stays with the process and its children, where it never matches: no other program has
// memory in the range, nor libc at this address.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "vgpu/memory.h"

namespace assay::cudart {

struct CallRange {
  vgpu::Address address = 0;
  uint64_t bytes = 0;    // that the call may touch
  uint64_t touches = 0;  // that it is known to touch, from the first on
  bool writes = false;   // the kernel writes there
};

struct SystemCall {
  pid_t thread = 0;
  int number = 0;
  uint64_t arguments[6] = {};
  std::vector<CallRange> ranges;  // in the host range
};

// "read", or "" where it is of no kind that has a name here.
std::string_view name_of_call(int number);

class CallListener {
 public:
  virtual ~CallListener() = default;
  // The thread that makes the call waits meanwhile: must not wait for the program.
  virtual void on_call(const SystemCall& call) = 0;
};

// Calls go to `listener` from now on; there is one at a time, null for none. False: the system does not allow
// it.
bool watch_system_calls(CallListener* listener);
// The thread that handles the calls, which touches nothing of the program's; 0: there is none.
pid_t system_call_thread();

// Whether a call has ended by now, as far as the system tells; false when in doubt.
bool is_over(const SystemCall& call);

// Code of the C library, [low, high).
struct CodeRange {
  uint64_t low = 0, high = 0;
  bool contains(uint64_t code) const { return code >= low && code < high; }
};
CodeRange code_of_libc();

}  // namespace assay::cudart
