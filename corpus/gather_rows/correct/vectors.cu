// assay: expect pass
// Gather: a thread for each 16-byte vector.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A thread for each vector of eight elements; D is a multiple of eight.
__global__ void gather(const uint4* table, const int32_t* rows, uint4* out, int64_t vectors, int per_row) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const int64_t t = i / per_row;
  out[i] = table[int64_t{rows[t]} * per_row + (i - t * per_row)];
}

}  // namespace

extern "C" void gather_rows(const __nv_bfloat16* table, const int32_t* rows, __nv_bfloat16* out, int T, int D,
                            cudaStream_t stream) {
  const int per_row = D / 8;
  const int64_t vectors = int64_t{T} * per_row;
  gather<<<(vectors + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const uint4*>(table), rows,
                                                    reinterpret_cast<uint4*>(out), vectors, per_row);
}
