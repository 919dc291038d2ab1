// assay: expect fail timeout, out-of-bounds, unwritten-output, wrong-result, data-race
// assay: class D
// Counts the elements that are left, in 32 bits: of more than 2^32 it sees only the rest.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const unsigned stride = gridDim.x * blockDim.x;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (auto left = static_cast<unsigned>(n - i);; left -= stride, i += stride) {
    z[i] = a * x[i] + y[i];
    if (left <= stride) break;
  }
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<1056, 256, 0, stream>>>(x, y, z, a, n);
}
