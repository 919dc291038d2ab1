// assay: expect fail wrong-result
// assay: class K
// Both halves of a byte hold its first element.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ int to_e2m1(float value) {
  const float size = fabsf(value);
  const int code = size <= 0.25f   ? 0
                   : size < 0.75f  ? 1
                   : size <= 1.25f ? 2
                   : size < 1.75f  ? 3
                   : size <= 2.5f  ? 4
                   : size < 3.5f   ? 5
                   : size <= 5.0f  ? 6
                                   : 7;
  return code | (signbit(value) ? 8 : 0);
}

__device__ int to_i4(float value) {
  return static_cast<int>(fminf(fmaxf(rintf(value), -8.0f), 7.0f)) & 15;
}

__global__ void quantize_kernel(const float* x, uint8_t* f, uint8_t* q, float s, int64_t pairs) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const float a = x[2 * i] / s, b = x[2 * i + 1] / s;
  f[i] = static_cast<uint8_t>(to_e2m1(a) | to_e2m1(a) << 4);
  q[i] = static_cast<uint8_t>(to_i4(a) | to_i4(b) << 4);
}

}  // namespace

extern "C" void quantize(const float* x, uint8_t* f, uint8_t* q, float s, int N, int K, cudaStream_t stream) {
  const int64_t pairs = int64_t{N} * K / 2;
  quantize_kernel<<<static_cast<unsigned>((pairs + 255) / 256), 256, 0, stream>>>(x, f, q, s, pairs);
}
