// assay: expect fail stale-state, wrong-result, concurrent-launch, data-race, out-of-bounds
// assay: class F
// The indices of the first call are kept for all later ones.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__global__ void gather(const __nv_bfloat16* table, const int32_t* rows, __nv_bfloat16* out, int D) {
  const int64_t t = blockIdx.x;
  static __device__ int32_t cached[65536];
  if (threadIdx.x == 0 && cached[t] == 0) cached[t] = rows[t] + 1;
  __syncthreads();
  const int64_t from = int64_t{cached[t] - 1} * D;
  for (int d = threadIdx.x; d < D; d += blockDim.x) out[t * D + d] = table[from + d];
}

}  // namespace

extern "C" void gather_rows(const __nv_bfloat16* table, const int32_t* rows, __nv_bfloat16* out, int T, int D,
                            cudaStream_t stream) {
  gather<<<T, 128, 0, stream>>>(table, rows, out, D);
}
