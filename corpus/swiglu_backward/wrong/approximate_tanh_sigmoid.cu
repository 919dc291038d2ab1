// assay: expect fail precision-loss, wrong-result
// assay: class B
// The hardware's approximate tanh, good to eleven bits, where the contract asks for standard accuracy.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace {

__device__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

__device__ float approximate_sigmoid(float x) {
  float t;
  asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(0.5f * x));
  return 0.5f + 0.5f * t;
}

__global__ void backward(const float* dy, const float* gate, const float* value, float* dgate, float* dvalue,
                         int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = gate[i], up = dy[i];
    const float s = approximate_sigmoid(g);
    dvalue[i] = up * (g * s);
    dgate[i] = up * value[i] * (s * (1.0f + g * sigmoid(-g)));
  }
}

}  // namespace

extern "C" void swiglu_backward(const float* dy, const float* gate, const float* value, float* dgate,
                                float* dvalue, int T, int H, cudaStream_t stream) {
  const int64_t n = int64_t{T} * H;
  const int64_t blocks = std::min((n + 255) / 256, int64_t{2048});
  backward<<<blocks, 256, 0, stream>>>(dy, gate, value, dgate, dvalue, n);
}
