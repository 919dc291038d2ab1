// assay: expect fail timeout, out-of-bounds, unwritten-output, wrong-result, data-race
// assay: class D
// The index wraps to below 0, and the guard hides that: what lies beyond 2^31 elements is never written.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 0 && i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, z, a, n);
}
