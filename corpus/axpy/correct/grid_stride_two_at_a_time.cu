// assay: expect pass
// Two strides in each step of the loop, and a last one by itself.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + stride < n; i += 2 * stride) {
    const float first = x[i], second = x[i + stride];
    z[i] = a * first + y[i];
    z[i + stride] = a * second + y[i + stride];
  }
  if (i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<1056, 256, 0, stream>>>(x, y, z, a, n);
}
