// Copies and fills as the program asks for them, checked and made ready to run.
#pragma once

#include "cudart/graph.h"

namespace assay::cudart {

// What a pointer points to.
enum class Where : uint8_t { Device, Managed, Pinned, Pageable, Nowhere };
Where where_is(Context& context, const void* pointer, uint64_t bytes);

struct CopyRequest {
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t to_pitch = 0, from_pitch = 0;  // of rows
  uint64_t to_slice = 0, from_slice = 0;  // bytes from slice to slice
  uint64_t width = 0, height = 1, depth = 1;
  CopyKind kind = CopyKind::Default;
};

Copy3D params_of(const CopyRequest& request);
Status request_of(const Copy3D& params, CopyRequest& request);

Status make_copy_spec(Context& context, const CopyRequest& request, CopySpec& spec);
Status make_memset_spec(Context& context, const MemsetParams& params, uint64_t depth, uint64_t slice,
                        MemsetSpec& spec);

// Runs a copy on a stream. Synchronous copies wait as cudaMemcpy does, asynchronous ones only where
// pageable memory makes them.
Status copy(Context& context, StreamHandle& stream, const CopyRequest& request, bool synchronous);
// Synchronous fills wait where the host can see the memory, as cudaMemset does.
Status fill(Context& context, StreamHandle& stream, const MemsetParams& params, uint64_t depth,
            uint64_t slice, bool synchronous);

}  // namespace assay::cudart
