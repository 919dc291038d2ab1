// assay: expect fail wrong-result
// assay: class K
// The norm is that of x alone.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float load(const __nv_bfloat16* x, const __nv_bfloat16* residual, int64_t i) {
  return __bfloat162float(x[i]) + (residual ? __bfloat162float(residual[i]) : 0.0f);
}

__global__ void rmsnorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* residual, const __nv_bfloat16* gain,
                               __nv_bfloat16* y, int rows, int cols) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int64_t base = int64_t{row} * cols;
  float sum = 0;
  for (int j = lane; j < cols; j += 32) {
    const float z = load(x, nullptr, base + j);
    sum += z * z;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  const float factor = rsqrtf(sum / cols + 1e-5f);
  for (int j = lane; j < cols; j += 32)
    y[base + j] = __float2bfloat16(load(x, residual, base + j) * factor * (gain ? __bfloat162float(gain[j]) : 1.0f));
}

}  // namespace

extern "C" void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* residual, const __nv_bfloat16* gain, __nv_bfloat16* y,
                        int rows, int cols, cudaStream_t stream) {
  rmsnorm_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(x, residual, gain, y, rows, cols);
}
