// assay: expect fail wrong-result
// assay: class K
// The vector is conjugated instead of the matrix: the imaginary part has the other sign.
#include <cuComplex.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarps = 4;

__global__ void gemv_kernel(cuComplex alpha, const cuComplex* a, const cuComplex* x, cuComplex* y, int M, int K) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= M) return;
  float re = 0, im = 0;
  for (int k = lane; k < K; k += 32) {
    const cuComplex z = a[static_cast<size_t>(row) * K + k], w = x[k];
    re += z.x * w.x + z.y * w.y;
    im += z.y * w.x - z.x * w.y;
  }
  for (int step = 16; step > 0; step /= 2) {
    re += __shfl_xor_sync(0xffffffffu, re, step);
    im += __shfl_xor_sync(0xffffffffu, im, step);
  }
  if (lane == 0) y[row] = cuCmulf(alpha, make_cuComplex(re, im));
}

}  // namespace

extern "C" void complex_gemv(cuComplex alpha, const cuComplex* a, const cuComplex* x, cuComplex* y, int M, int K,
                             cudaStream_t stream) {
  gemv_kernel<<<(M + kWarps - 1) / kWarps, 32 * kWarps, 0, stream>>>(alpha, a, x, y, M, K);
}
