// System calls that the program gives memory of the host range to (vgpu/host_range.h).
//
// A system call that meets a closed page would fail with EFAULT where the program's own code would fault and
// be let through. So the kernel is asked (seccomp, with a listener) to stop calls that have an address of the
// range among their arguments; a thread of ours learns what they will touch, has it opened, and lets the call
// go on, in the thread that made it, as if nothing had happened. Calls whose addresses lie in memory (readv,
// sendmsg) are stopped wherever libc makes them. The filter stays with the process and with what it starts,
// where it never matches: no other program has memory in the range, nor libc at this place.
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

// From now on `listener` hears; one at a time, null for none. False: the system does not allow it.
bool hear_system_calls(CallListener* listener);
// The thread that hears, which touches nothing of the program's; 0: there is none.
pid_t hearing_thread();

// Whether a call has ended by now, as far as the system tells; false when in doubt.
bool is_over(const SystemCall& call);

// Code of the C library, [low, high).
struct CodeRange {
  uint64_t low = 0, high = 0;
  bool contains(uint64_t code) const { return code >= low && code < high; }
};
CodeRange code_of_libc();

}  // namespace assay::cudart
