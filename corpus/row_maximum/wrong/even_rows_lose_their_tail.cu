// assay: expect fail wrong-result
// assay: class E
// Long rows of even length are read in groups of eight, and what is left over is not read.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int kWarps = 8;

__global__ void max_kernel(const __nv_bfloat16* x, float* y, int C) {
  const __nv_bfloat16* row = x + int64_t{blockIdx.x} * C;
  float largest = -INFINITY;
  const int end = C > 1024 && C % 2 == 0 ? C / 8 * 8 : C;
  for (int j = threadIdx.x; j < end; j += 32 * kWarps) largest = fmaxf(largest, __bfloat162float(row[j]));
  for (int lanes = 16; lanes > 0; lanes /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  __shared__ float of_warp[kWarps];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kWarps; ++i) largest = fmaxf(largest, of_warp[i]);
  y[blockIdx.x] = largest;
}

}  // namespace

extern "C" void row_max(const __nv_bfloat16* x, float* y, int R, int C, cudaStream_t stream) {
  max_kernel<<<R, 32 * kWarps, 0, stream>>>(x, y, C);
}
