// y = 2 x, and then as long as `cycles` says: a kernel of a chosen duration, whatever its size.
#include <cstdint>

namespace {

__global__ void scale_kernel(const float* x, float* y, int64_t n, int64_t cycles) {
  const int64_t start = clock64();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x)
    y[i] = 2 * x[i];
  while (clock64() - start < cycles) {
  }
}

}  // namespace

extern "C" void scale(const float* x, float* y, int64_t n, int64_t cycles, cudaStream_t stream) {
  scale_kernel<<<132, 512, 0, stream>>>(x, y, n, cycles);
}
