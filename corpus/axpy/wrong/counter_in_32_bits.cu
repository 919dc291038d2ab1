// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The counter of the loop is an int: beyond 2^31 it turns negative.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += static_cast<int>(stride)) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  const int64_t blocks = (n + 1023) / 1024;
  axpy_kernel<<<static_cast<unsigned>(blocks < 1048576 ? blocks : 1048576), 256, 0, stream>>>(x, y, z, a, n);
}
