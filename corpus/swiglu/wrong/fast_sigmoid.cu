// assay: expect fail precision-loss, wrong-result
// assay: class B
// The sigmoid by tanh cancels for negative gates.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__device__ float silu(float x) {
  return x * (0.5f + 0.5f * tanhf(0.5f * x));
}

// Each row of h is the gate's H columns, then the value's.
__global__ void swiglu_kernel(const __nv_bfloat16* h, __nv_bfloat16* y, int H) {
  const int64_t row = blockIdx.x;
  const __nv_bfloat16* gate = h + row * 2 * H;
  const __nv_bfloat16* value = gate + H;
  for (int j = threadIdx.x; j < H; j += blockDim.x) {
    y[row * H + j] = __float2bfloat16(silu(__bfloat162float(gate[j])) * __bfloat162float(value[j]));
  }
}

}  // namespace

extern "C" void swiglu(const __nv_bfloat16* h, __nv_bfloat16* y, int T, int H, cudaStream_t stream) {
  swiglu_kernel<<<T, 256, 0, stream>>>(h, y, H);
}
