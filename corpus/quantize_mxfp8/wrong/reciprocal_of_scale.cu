// assay: expect fail nonfinite, wrong-result
// assay: class B
// Multiplies by the reciprocal of the scale, whose bits are zero where its exponent is the smallest.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cstdint>
namespace {
__global__ void quantise(const __nv_bfloat16* x, uint8_t* q, uint8_t* s, int64_t blocks) {
  const int64_t b = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (b >= blocks) return;
  const int lane = threadIdx.x % 32;
  const float v = __bfloat162float(x[b * 32 + lane]);
  float a = fabsf(v);
  for (int d = 16; d; d /= 2) a = fmaxf(a, __shfl_xor_sync(~0u, a, d));
  int e = -127;
  if (a > 0.0f) e = max(ilogbf(a) - 8, -127);
  q[b * 32 + lane] = __nv_cvt_float_to_fp8(v * (1.0f / __int_as_float((e + 127) << 23)), __NV_SATFINITE, __NV_E4M3);
  if (lane == 0) s[b] = static_cast<uint8_t>(e + 127);
}
}
extern "C" void mx(const __nv_bfloat16* x, uint8_t* q, uint8_t* s, int M, int K, cudaStream_t stream) {
  const int64_t blocks = int64_t(M) * (K / 32);
  quantise<<<static_cast<unsigned>((blocks + 7) / 8), 256, 0, stream>>>(x, q, s, blocks);
}
