// What the runtime library offers beyond CUDA, to the worker that drives it. The library defines these
// functions (cudart/api_assay.cpp); the worker finds them by name in whichever libcudart.so.13 it has loaded,
// and does without them on a real GPU. Programs use those of include/assay.h.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum assay_host_finding {
  assay_forbidden_call = 0,
  assay_environment_probe = 1,
  assay_aliased_output = 2,
  assay_calls_reference = 3,
  assay_tampering = 4,
};

// Other settings (protocol/settings.h) than those of the environment: for a process that was forked after the
// library had read them, and before it used the device.
void assay_configure(const char* settings);
// The order of warps, blocks and streams of all later launches.
void assay_set_seed(uint64_t seed);
// Advances the device's clock.
void assay_advance_clock(uint64_t cycles);
// These bytes count as never written.
void assay_undefine(void* pointer, size_t bytes);
// What memory that is allocated from now on holds: a pattern, repeated.
void assay_fill_new(uint64_t pattern);
// The allocation that starts here and is new holds values by position (base/generated_values.h) in `length` bytes from
// `offset` on, made as they are touched; `defined`: they count as written. Returns 0 where that cannot be.
int assay_make_on_touch(void* pointer, size_t offset, size_t length, const void* table, size_t table_bytes,
                        unsigned item, uint64_t seed, int64_t last_value, int64_t last_index, int defined);
// From now on launches run a sample of their blocks: a SampleRequest (protocol/messages.h) as one line. Returns 0 where
// that cannot be.
int assay_sample_begin(const char* request);
// As before. Returns a SampleReport as one line, until the next call.
const char* assay_sample_end();
// What the blocks of the last sample wrote to the allocation that starts here, as protocol::BufferRequest describes it.
// Returns 0 if `room` bytes are too few.
int assay_sample_written(void* pointer, void* to, size_t room);
// The name of the allocation that starts here, for messages.
void assay_label(void* pointer, const char* label);
// A write to these bytes is a finding, until assay_range_forget().
void assay_range_protect(const void* pointer, size_t bytes, const char* name);
// Forgets all named ranges and writes out the findings so far.
void assay_range_forget();
// Writes out where precision was lost since the last time, if that check is on.
void assay_report_precision();
// A finding about host code. `what`: the call, "open(\"/proc/self/maps\")"; `why`: what is wrong about it,
// "host code …"; `calls`: return addresses, innermost first.
void assay_report_host(assay_host_finding kind, int is_error, const char* what, const char* why,
                       void* const* calls, int count);
// A finding about Python code: `text` says all; `file`, `line`: where, or "" and 0.
void assay_report_python(assay_host_finding kind, int is_error, const char* text, const char* file, int line);
// Before each launch, `call` gets the starts of the allocations that its arguments point to and that have no name yet
// (assay_label); null: no longer.
void assay_on_launch(void (*call)(void* const* bases, int count));
// As cudaMemcpy2DAsync from device to host, done when it returns; but the program has not waited for anything: what it
// does later is not ordered by this. Returns a cudaError_t.
int assay_fetch(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                void* stream);
// Whether cudaFree counts as waiting for the device (the default). It does not where a program frees through an
// allocator that would have kept the memory on a real GPU.
void assay_frees_wait(int wait);
// Notes from now on which work waits for which, up to assay_work_left().
void assay_watch_order();
// Whether a kernel, copy or fill since then was left on a stream of the callee's own, which `stream` does not wait for.
// `kernel` gets its name, or "". `frame` is called for each function on the Python stack that launched it, innermost
// first.
int assay_work_left(void* stream, char* kernel, size_t capacity, void (*frame)(const char* file, int line));
// A call of the subject begins, or has returned: what it asked of the device in between is reported, where the settings
// say so.
void assay_call_begins();
void assay_call_returned();
// One of several equal calls has ended with all its work.
void assay_call_ended();
// The last of them has: reports a leak where they held more and more.
void assay_calls_ended();
}

// Calls `use` with the name of every hook.
#define ASSAY_HOOKS(use)                                                                                    \
  use(assay_configure) use(assay_set_seed) use(assay_advance_clock) use(assay_undefine) use(assay_fill_new) \
      use(assay_label) use(assay_range_protect) use(assay_range_forget) use(assay_report_precision)         \
          use(assay_report_host) use(assay_report_python) use(assay_on_launch) use(assay_fetch)             \
              use(assay_frees_wait) use(assay_watch_order) use(assay_work_left) use(assay_call_begins)      \
                  use(assay_call_returned) use(assay_call_ended) use(assay_calls_ended)                     \
                      use(assay_make_on_touch) use(assay_sample_begin) use(assay_sample_end)                \
                          use(assay_sample_written)
