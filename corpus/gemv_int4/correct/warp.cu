// assay: expect pass
// 4-bit weights: a warp for each row, a byte of two weights for each lane and step.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4, kGroup = 32;

__global__ void gemv_kernel(const uint8_t* w, const __nv_bfloat16* scale, const uint8_t* zero, const __nv_bfloat16* x,
                            __nv_bfloat16* y, int n, int k) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32, groups = k / kGroup;
  if (row >= n) return;
  float sum = 0;
  for (int at = 2 * lane; at < k; at += 64) {
    const uint8_t both = w[(int64_t{row} * k + at) / 2];
    const int64_t group = int64_t{row} * groups + at / kGroup;
    const int offset = group % 2 == 0 ? zero[group / 2] & 15 : zero[group / 2] >> 4;
    const float step = __bfloat162float(scale[group]);
    sum += __bfloat162float(x[at]) * (static_cast<float>((both & 15) - offset) * step);
    sum += __bfloat162float(x[at + 1]) * (static_cast<float>((both >> 4) - offset) * step);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) y[row] = __float2bfloat16(sum);
}

}  // namespace

extern "C" void gemv_int4(const uint8_t* w, const __nv_bfloat16* scale, const uint8_t* zero, const __nv_bfloat16* x,
                          __nv_bfloat16* y, int N, int K, cudaStream_t stream) {
  gemv_kernel<<<(N + kWarps - 1) / kWarps, 32 * kWarps, 0, stream>>>(w, scale, zero, x, y, N, K);
}
