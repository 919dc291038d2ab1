// assay: expect pass
// The last block overlaps the one before it, with the same values.
#include <cstdint>

namespace {

// 1024 elements for each block; the last block steps back so that it is full, and writes some of them again.
__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  int64_t first = int64_t{blockIdx.x} * 1024;
  if (n >= 1024 && first + 1024 > n) first = n - 1024;
  for (int64_t i = first + threadIdx.x; i < first + 1024 && i < n; i += blockDim.x) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 1023) / 1024), 256, 0, stream>>>(x, y, z, a, n);
}
