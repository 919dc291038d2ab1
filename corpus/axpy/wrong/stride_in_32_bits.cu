// assay: expect fail timeout, out-of-bounds, unwritten-output, wrong-result, data-race
// assay: class D
// The count has 64 bits, but the stride is a product of 32: for 2^32 threads it is 0.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t stride = gridDim.x * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, z, a, n);
}
