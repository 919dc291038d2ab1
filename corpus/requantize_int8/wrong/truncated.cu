// assay: expect fail wrong-result, biased-rounding
// assay: class C
// Adding one half and truncating rounds negative numbers up.
#include <cstdint>

__global__ void kernel(const int* __restrict__ acc, const float* __restrict__ scale, int8_t* __restrict__ q,
                       int64_t total, int N, int zp) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= total) return;
  int v = (int)((float)acc[i] * scale[i % N] + 0.5f) + zp;
  q[i] = (int8_t)max(-128, min(127, v));
}
extern "C" void requantize(const int* acc, const float* scale, int8_t* q, int M, int N, int zp,
                           cudaStream_t stream) {
  int64_t total = (int64_t)M * N;
  kernel<<<(unsigned)((total + 255) / 256), 256, 0, stream>>>(acc, scale, q, total, N, zp);
}
