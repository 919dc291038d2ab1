// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// One of the two inputs is read with a 32-bit index, which wraps at 2^32.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[static_cast<unsigned>(i)];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, z, a, n);
}
