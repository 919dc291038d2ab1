/* Calls with which a program under `assay run` tells Assay about its memory. Without Assay they do nothing, so they
 * may stay in the program.
 *
 *     assay_protect(x, bytes, "x");            // an input: a write is a finding (clobbered-input)
 *     assay_expect_written(y, bytes, "y");     // an output: every byte has to be written
 *     kernel<<<grid, block, 0, stream>>>(x, y);
 *     assay_judge_ranges(stream);              // waits for the stream; unwritten bytes are a finding (unwritten-output)
 *     assay_label(x, "activations");           // the name of an allocation in reports
 */
#ifndef ASSAY_H
#define ASSAY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((weak)) void assay_range_expect_written(const void* device, size_t bytes, const char* name);
__attribute__((weak)) void assay_range_protect(const void* device, size_t bytes, const char* name);
__attribute__((weak)) void assay_range_judge(void* stream);
__attribute__((weak)) void assay_label(void* device, const char* name);

static inline void assay_expect_written(const void* device, size_t bytes, const char* name) {
  if (assay_range_expect_written) assay_range_expect_written(device, bytes, name);
}
static inline void assay_protect(const void* device, size_t bytes, const char* name) {
  if (assay_range_protect) assay_range_protect(device, bytes, name);
}
static inline void assay_judge_ranges(void* stream) {
  if (assay_range_judge) assay_range_judge(stream);
}

#ifdef __cplusplus
}
#endif
#endif
