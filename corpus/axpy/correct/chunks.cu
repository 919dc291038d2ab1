// assay: expect pass
// 32-bit indices, in launches of no more elements than these can count.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  constexpr int64_t kChunk = int64_t{1} << 30;
  for (int64_t first = 0; first < n; first += kChunk) {
    const int count = static_cast<int>(n - first < kChunk ? n - first : kChunk);
    axpy_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x + first, y + first, z + first, a, count);
  }
}
