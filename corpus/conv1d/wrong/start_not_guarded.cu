// assay: expect fail out-of-bounds, wrong-result
// assay: class E
// The first elements read the end of the channel before, or before the tensor.
#include <cstdint>

namespace {

constexpr int kTaps = 4;

// Depthwise and causal: y[t] sees x[t], x[t - 1], x[t - 2], x[t - 3] of its own channel.
__global__ void conv_kernel(const float* x, const float* w, const float* bias, float* y, int C, int L) {
  const int64_t row = blockIdx.x;  // batch * C + channel
  const int c = static_cast<int>(row % C);
  for (int t = threadIdx.x; t < L; t += blockDim.x) {
    float sum = bias[c];
    for (int k = 0; k < kTaps; ++k) sum += w[c * kTaps + k] * x[row * L + t - k];
    y[row * L + t] = sum;
  }
}

}  // namespace

extern "C" void conv1d(const float* x, const float* w, const float* bias, float* y, int B, int C, int L,
                       cudaStream_t stream) {
  conv_kernel<<<B * C, 128, 0, stream>>>(x, w, bias, y, C, L);
}
