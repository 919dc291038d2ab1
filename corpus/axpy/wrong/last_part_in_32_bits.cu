// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// A launch for every 2^30 elements, but the count of the last one is cut to 32 bits before it is compared.
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
    const int left = static_cast<int>(n - from);
    const auto count = static_cast<unsigned>(left < kMost ? (left > 0 ? left : 0) : kMost);
    axpy_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x + from, y + from, z + from, a, count);
  }
}
