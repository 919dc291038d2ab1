// assay: expect fail wrong-result
// assay: class K
// The zero point is always 8.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ int nibble(const uint8_t* packed, int64_t i) {
  return packed[i / 2] >> (i % 2 * 4) & 15;
}

__global__ void dequantize_kernel(const uint8_t* q, const __half* scale, const uint8_t* zero, __half* y, int64_t bytes, int group) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= bytes) return;
  const int64_t g = 2 * at / group;
  const float factor = __half2float(scale[g]);
  const int offset = 8;
  y[2 * at] = __float2half(static_cast<float>((q[at] & 15) - offset) * factor);
  y[2 * at + 1] = __float2half(static_cast<float>((q[at] >> 4) - offset) * factor);
}

}  // namespace

extern "C" void dequantize(const uint8_t* q, const __half* scale, const uint8_t* zero, __half* y, int rows, int cols, int group,
                           cudaStream_t stream) {
  const int64_t bytes = int64_t{rows} * cols / 2;
  dequantize_kernel<<<static_cast<unsigned>((bytes + 255) / 256), 256, 0, stream>>>(q, scale, zero, y, bytes, group);
}
