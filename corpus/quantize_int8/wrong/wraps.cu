// assay: expect fail wrong-result
// assay: class C
// A safety factor and no clamp: the largest elements wrap around to negative.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__global__ void quantize(const __nv_bfloat16* x, int8_t* q, float* scale, int D) {
  __shared__ float all[kThreads / 32];
  const int64_t row = blockIdx.x;
  float top = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) top = fmaxf(top, fabsf(__bfloat162float(x[row * D + d])));
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = top;
  __syncthreads();
  top = fmaxf(fmaxf(all[0], all[1]), fmaxf(all[2], all[3]));
  const float s = top == 0.0f ? 1.0f : top / 127.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float level = floorf(__bfloat162float(x[row * D + d]) / s + 0.5f);
    q[row * D + d] = static_cast<int8_t>(static_cast<int>(level * 1.02f));
  }
  if (threadIdx.x == 0) scale[row] = s;
}

}  // namespace

extern "C" void quantize_int8(const __nv_bfloat16* x, int8_t* q, float* scale, int N, int D,
                              cudaStream_t stream) {
  quantize<<<N, kThreads, 0, stream>>>(x, q, scale, D);
}
