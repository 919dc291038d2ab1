// assay: expect fail precision-loss, biased-rounding, low-precision-accumulation, wrong-result
// assay: class A
// The scale is rounded to bf16 first.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kGroup = 32;

// A warp for each group of 32 codes that share a scale and a zero point.
__global__ void dequantize(const int8_t* q, const float* scale, const int8_t* zero, __nv_bfloat16* y,
                           int64_t groups) {
  const int64_t group = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  if (group >= groups) return;
  const int64_t i = group * kGroup + threadIdx.x % 32;
  y[i] = __float2bfloat16(static_cast<float>(q[i] - zero[group]) *
                          __bfloat162float(__float2bfloat16(scale[group])));
}

}  // namespace

extern "C" void dequantize_int8(const int8_t* q, const float* scale, const int8_t* zero, __nv_bfloat16* y,
                                int N, int G, cudaStream_t stream) {
  const int64_t groups = int64_t{N} * G;
  dequantize<<<(groups + 7) / 8, 256, 0, stream>>>(q, scale, zero, y, groups);
}
