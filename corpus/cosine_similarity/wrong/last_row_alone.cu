// assay: expect fail unwritten-output, wrong-result, uninitialized
// assay: class E
// A last group of one row has no block.
#include <cstdint>

__global__ void kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y, int R,
                       int D, float eps) {
  int row = blockIdx.x * 4 + threadIdx.y;
  if (row >= R) return;
  float ab = 0.f, aa = 0.f, bb = 0.f;
  for (int d = threadIdx.x; d < D; d += 32) {
    float u = a[(size_t)row * D + d], v = b[(size_t)row * D + d];
    ab += u * v;
    aa += u * u;
    bb += v * v;
  }
  for (int o = 16; o; o >>= 1) {
    ab += __shfl_xor_sync(0xffffffffu, ab, o);
    aa += __shfl_xor_sync(0xffffffffu, aa, o);
    bb += __shfl_xor_sync(0xffffffffu, bb, o);
  }
  if (threadIdx.x == 0) {
    float na = sqrtf(aa), nb = sqrtf(bb);
    na = na < eps ? eps : na;
    nb = nb < eps ? eps : nb;
    y[row] = ab / (na * nb);
  }
}
extern "C" void cosine(const float* a, const float* b, float* y, int R, int D, float eps,
                       cudaStream_t stream) {
  kernel<<<R / 4 + (R % 4 > 1), dim3(32, 4), 0, stream>>>(a, b, y, R, D, eps);
}
