// assay: expect pass
// A launch for every 2^30 elements, so that 32 bits suffice in the kernel.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = a * x[i] + y[i];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  constexpr int64_t kMost = int64_t{1} << 30;
  for (int64_t from = 0; from < n; from += kMost) {
    const auto count = static_cast<unsigned>(n - from < kMost ? n - from : kMost);
    axpy_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x + from, y + from, z + from, a, count);
  }
}
