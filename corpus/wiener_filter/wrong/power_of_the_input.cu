// assay: expect fail wrong-result
// assay: class K
// The power is that of the spectrum before the filter.
#include <cuda_runtime.h>

namespace {

__global__ void filter_kernel(const float2* z, const float2* h, float2* y, float* power, int B, int F, float noise) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= static_cast<long long>(B) * F) return;
  const float2 a = z[i], b = h[i % F];
  const float scale = 1 / (b.x * b.x + b.y * b.y + noise);
  const float2 g = make_float2(b.x * scale, -b.y * scale);
  const float2 r = make_float2(a.x * g.x - a.y * g.y, a.x * g.y + a.y * g.x);
  y[i] = r;
  power[i] = a.x * a.x + a.y * a.y;
}

}  // namespace

extern "C" void wiener_filter(const float2* z, const float2* h, float2* y, float* power, int B, int F, float noise,
                              cudaStream_t stream) {
  const long long n = static_cast<long long>(B) * F;
  filter_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(z, h, y, power, B, F, noise);
}
