// assay: expect pass
// Vectors of four elements, indices in 64 bits.
#include <cstdint>

namespace {

// Four elements for each thread, as vectors where the tail permits.
__global__ void axpy_kernel(const float* x, const float* y, float* z, float a, int64_t n) {
  const int64_t i = 4 * (int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (i + 4 <= n) {
    const float4 p = *reinterpret_cast<const float4*>(x + i), q = *reinterpret_cast<const float4*>(y + i);
    *reinterpret_cast<float4*>(z + i) = {a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w};
    return;
  }
  for (int64_t j = i; j < n; ++j) z[j] = a * x[j] + y[j];
}

}  // namespace

extern "C" void axpy(const float* x, const float* y, float* z, float a, int64_t n, cudaStream_t stream) {
  axpy_kernel<<<static_cast<unsigned>((n + 1023) / 1024), 256, 0, stream>>>(x, y, z, a, n);
}
