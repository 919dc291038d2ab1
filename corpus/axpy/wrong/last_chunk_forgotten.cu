// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// Launches of 2^30 elements, as many as fit whole: what is left over is computed only by itself.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  constexpr int64_t kChunk = int64_t{1} << 30;
  if (n < kChunk) {
    axpy_kernel<<<static_cast<int>((n + 255) / 256), 256, 0, stream>>>(x, y, z, a, static_cast<int>(n));
    return;
  }
  for (int64_t first = 0; first + kChunk <= n; first += kChunk)
    axpy_kernel<<<kChunk / 256, 256, 0, stream>>>(x + first, y + first, z + first, a, static_cast<int>(kChunk));
}
