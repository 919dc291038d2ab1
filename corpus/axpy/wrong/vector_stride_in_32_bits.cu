// assay: expect fail timeout, out-of-bounds, unwritten-output, wrong-result, data-race
// assay: class D
// Vectors of four, counted in 32 bits, which is enough; but the position of their elements is computed in 32 bits too.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const unsigned stride = gridDim.x * blockDim.x;
  const auto vectors = static_cast<unsigned>(n / 4);
  for (unsigned v = blockIdx.x * blockDim.x + threadIdx.x; v < vectors; v += stride)
    for (unsigned e = 0; e < 4; ++e) z[4 * v + e] = a * x[4 * v + e] + y[4 * v + e];
  if (blockIdx.x == 0 && threadIdx.x < n % 4) {
    const int64_t i = n - 1 - threadIdx.x;
    z[i] = a * x[i] + y[i];
  }
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<1056, 256, 0, stream>>>(x, y, z, a, n);
}
