// assay: expect fail unwritten-output
// assay: class E
// With an even number of rows the last one is not written.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__global__ void gather(const __nv_bfloat16* table, const int32_t* rows, __nv_bfloat16* out, int D) {
  const int64_t t = blockIdx.x;
  const int64_t from = int64_t{rows[t]} * D;
  for (int d = threadIdx.x; d < D; d += blockDim.x) out[t * D + d] = table[from + d];
}

}  // namespace

extern "C" void gather_rows(const __nv_bfloat16* table, const int32_t* rows, __nv_bfloat16* out, int T, int D,
                            cudaStream_t stream) {
  gather<<<(T + 1) / 2 * 2 - 1, 128, 0, stream>>>(table, rows, out, D);
}
