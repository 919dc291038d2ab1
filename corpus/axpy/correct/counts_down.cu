// assay: expect pass
// From the last element to the first, with a count of iterations that ends at zero.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = n - 1 - (int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (i < 0) return;
  for (int64_t left = i / stride + 1; left != 0; --left, i -= stride) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<1056, 256, 0, stream>>>(x, y, z, a, n);
}
