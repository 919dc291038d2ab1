// Contexts of the driver API, and which of them is current on a thread.
//
// There is one virtual device with one set of memory, streams and modules, so contexts do not separate anything: what
// one allocates is valid in all of them. What is kept is what programs observe: a context must be current for most
// calls, each thread has a stack of them, a destroyed one is refused, and when the last one goes, so does everything
// that was allocated on the device.
#pragma once

#include <cstdint>

#include "cudart/abi.h"

namespace assay::driver {

struct ContextHandle {
  uint64_t id = 0;
  unsigned flags = 0;
  unsigned references = 1;  // cuCtxAttach, cuDevicePrimaryCtxRetain
  bool is_primary = false;
};

// cuInit was called, or any function of the runtime, which initialises the driver by itself.
bool is_initialised();
void initialise();

// The context that is current on the calling thread; null: none.
ContextHandle* current();
// Success, or why the calling thread cannot work: not initialised, no context, or a destroyed one.
cudart::Status check_current();

void push(ContextHandle* context);
// Null: there was none.
ContextHandle* pop();
// Replaces the top of the stack; null: only takes it away.
void set_current(ContextHandle* context);

ContextHandle* create_context(unsigned flags);
bool is_alive(ContextHandle* context);
// False: there is no such context, or it is the primary one.
bool destroy_context(ContextHandle* context);

ContextHandle* primary_context();
// References that cuDevicePrimaryCtxRetain gave out and that were not released.
ContextHandle* retain_primary();
bool release_primary();
void reset_primary();
// Retained, or in use by the runtime.
bool is_primary_active();

}  // namespace assay::driver
