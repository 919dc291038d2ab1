// assay: expect pass
// A grid of eight blocks for each multiprocessor that strides over the elements: long loops, counted in 64 bits.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<1056, 256, 0, stream>>>(x, y, z, a, n);
}
