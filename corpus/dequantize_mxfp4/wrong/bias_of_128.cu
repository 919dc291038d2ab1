// assay: expect fail wrong-result
// assay: class C
// The exponent is taken to have a bias of 128.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float decode(int code) {
  constexpr float kValues[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float value = kValues[code & 7];
  return code & 8 ? -value : value;
}

__global__ void dequantize_kernel(const uint8_t* q, const uint8_t* scale, __nv_bfloat16* y, int64_t bytes) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= bytes) return;
  const float factor = exp2f(static_cast<float>(scale[at / 16]) - 128.0f);
  y[2 * at] = __float2bfloat16(decode(q[at] & 15) * factor);
  y[2 * at + 1] = __float2bfloat16(decode(q[at] >> 4) * factor);
}

}  // namespace

extern "C" void dequantize(const uint8_t* q, const uint8_t* scale, __nv_bfloat16* y, int rows, int cols, cudaStream_t stream) {
  const int64_t bytes = int64_t{rows} * cols / 2;
  dequantize_kernel<<<static_cast<unsigned>((bytes + 255) / 256), 256, 0, stream>>>(q, scale, y, bytes);
}
