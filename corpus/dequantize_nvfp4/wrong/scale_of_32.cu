// assay: expect fail wrong-result
// assay: class C
// One scale is used for 32 elements instead of 16.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace {

__device__ float value_of(int code) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float size = kValues[code & 7];
  return code & 8 ? -size : size;
}

__device__ float scale_of(uint8_t code) {
  __nv_fp8_e4m3 scale;
  scale.__x = code;
  return static_cast<float>(scale);
}

__global__ void dequantize(const uint8_t* q, const uint8_t* scale, float global, __nv_bfloat16* y, int64_t bytes) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= bytes) return;
  const float step = scale_of(scale[i / 16]) * global;
  y[2 * i] = __float2bfloat16(value_of(q[i] & 15) * step);
  y[2 * i + 1] = __float2bfloat16(value_of(q[i] >> 4) * step);
}

}  // namespace

extern "C" void dequantize_nvfp4(const uint8_t* q, const uint8_t* scale, float global, __nv_bfloat16* y, int N, int B,
                                 cudaStream_t stream) {
  const int64_t bytes = int64_t{N} * B * 8;
  dequantize<<<static_cast<unsigned>((bytes + 255) / 256), 256, 0, stream>>>(q, scale, global, y, bytes);
}
