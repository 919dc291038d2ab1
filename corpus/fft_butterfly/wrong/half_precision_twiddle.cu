// assay: expect fail precision-loss, wrong-result
// assay: class A
// The twiddle factor is rounded to seven bits.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void step_kernel(const float2* x, float2* y, int B, int H) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= int64_t{B} * H) return;
  const int64_t b = at / H;
  const int k = static_cast<int>(at % H);
  const float2 low = x[2 * b * H + k], high = x[2 * b * H + H + k];
  const float c = rintf(128.0f * cospif(static_cast<float>(k) / H)) / 128.0f, s = -sinpif(static_cast<float>(k) / H);
  const float2 d = make_float2(low.x - high.x, low.y - high.y);
  y[2 * b * H + k] = make_float2(low.x + high.x, low.y + high.y);
  y[2 * b * H + H + k] = make_float2(d.x * c - d.y * s, d.x * s + d.y * c);
}

}  // namespace

extern "C" void fft_step(const float* x, float* y, int B, int H, cudaStream_t stream) {
  const int64_t count = int64_t{B} * H;
  step_kernel<<<static_cast<unsigned>((count + 127) / 128), 128, 0, stream>>>(reinterpret_cast<const float2*>(x),
                                                                              reinterpret_cast<float2*>(y), B, H);
}
