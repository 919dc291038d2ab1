// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The offset in bytes wraps at 2^32, a quarter of the elements that 32 bits could count.
#include <cstdint>

namespace {

__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned offset = static_cast<unsigned>(i) * 4u;
  const auto at = [offset](const float* base) { return reinterpret_cast<const float*>(reinterpret_cast<const char*>(base) + offset); };
  *reinterpret_cast<float*>(reinterpret_cast<char*>(z) + offset) = a * *at(x) + *at(y);
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, z, a, n);
}
