// assay: expect fail wrong-result, unwritten-output, out-of-bounds, data-race
// assay: class F
// The result is stored as two planes, all real parts first, where the parts of a number lie side by side.
#include <cuda_runtime.h>

namespace {

__global__ void filter_kernel(const float2* z, const float2* h, float2* y, float* power, int B, int F, float noise) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= static_cast<long long>(B) * F) return;
  const float2 a = z[i], b = h[i % F];
  const float scale = 1 / (b.x * b.x + b.y * b.y + noise);
  const float2 g = make_float2(b.x * scale, -b.y * scale);
  const float2 r = make_float2(a.x * g.x - a.y * g.y, a.x * g.y + a.y * g.x);
  reinterpret_cast<float*>(y)[i] = r.x;
  reinterpret_cast<float*>(y)[static_cast<long long>(B) * F + i] = r.y;
  power[i] = r.x * r.x + r.y * r.y;
}

}  // namespace

extern "C" void wiener_filter(const float2* z, const float2* h, float2* y, float* power, int B, int F, float noise,
                              cudaStream_t stream) {
  const long long n = static_cast<long long>(B) * F;
  filter_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(z, h, y, power, B, F, noise);
}
