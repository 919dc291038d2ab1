// assay: expect pass
// Each thread has a stretch of its own, element after element.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  const int64_t each = (n + threads - 1) / threads;
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * each;
  const int64_t last = first + each < n ? first + each : n;
  for (int64_t i = first; i < last; ++i) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<1056, 256, 0, stream>>>(x, y, z, a, n);
}
