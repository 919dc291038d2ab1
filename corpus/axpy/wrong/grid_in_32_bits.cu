// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The host code counts blocks in an int that wraps at 2^31 elements.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  const int blocks = (static_cast<int>(n) + 255) / 256;
  axpy_kernel<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(x, y, z, a, n);
}
