// assay: expect pass
// The last block has the first elements.
#include <cstdint>

namespace {

// Blocks take the elements from the end.
__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t i = int64_t{gridDim.x - 1 - blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, z, a, n);
}
