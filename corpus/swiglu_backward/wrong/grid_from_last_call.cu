// assay: expect fail stale-state, unwritten-output, wrong-result
// assay: class F
// The grid is computed at the first call and kept, and the loop over it is gone.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace {

__device__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

__global__ void backward(const float* dy, const float* gate, const float* value, float* dgate, float* dvalue,
                         int64_t n) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += n) {
    const float g = gate[i], up = dy[i];
    const float s = sigmoid(g);
    dvalue[i] = up * (g * s);
    dgate[i] = up * value[i] * (s * (1.0f + g * sigmoid(-g)));
  }
}

}  // namespace

extern "C" void swiglu_backward(const float* dy, const float* gate, const float* value, float* dgate,
                                float* dvalue, int T, int H, cudaStream_t stream) {
  const int64_t n = int64_t{T} * H;
  static int64_t blocks = 0;
  if (blocks == 0) blocks = (n + 255) / 256;
  backward<<<blocks, 256, 0, stream>>>(dy, gate, value, dgate, dvalue, n);
}
