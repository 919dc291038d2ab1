// assay: expect fail launch-failure, unwritten-output
// assay: class D
// More than 65535 rows do not fit the grid's y axis.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__device__ float silu(float x) {
  const float e = expf(-fabsf(x));
  return x < 0.0f ? x * e / (1.0f + e) : x / (1.0f + e);
}

// Each row of h is the gate's H columns, then the value's.
__global__ void swiglu_kernel(const __nv_bfloat16* h, __nv_bfloat16* y, int H) {
  const int64_t row = blockIdx.y;
  const __nv_bfloat16* gate = h + row * 2 * H;
  const __nv_bfloat16* value = gate + H;
  for (int j = threadIdx.x; j < H; j += blockDim.x) {
    y[row * H + j] = __float2bfloat16(silu(__bfloat162float(gate[j])) * __bfloat162float(value[j]));
  }
}

}  // namespace

extern "C" void swiglu(const __nv_bfloat16* h, __nv_bfloat16* y, int T, int H, cudaStream_t stream) {
  swiglu_kernel<<<dim3(1, T), 256, 0, stream>>>(h, y, H);
}
