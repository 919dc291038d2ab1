// assay: expect fail wrong-result
// assay: class F
// The input is read as if its channels came first.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void conv_kernel(const float* x, const float* w, float* y, int64_t count, int C, int K, int H, int W) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= count) return;
  const int k = at % K, j = at / K % W, i = at / K / W % H;
  const int64_t n = at / K / W / H;
  float sum = 0;
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s) {
      const int row = i + r - 1, column = j + s - 1;
      if (row < 0 || row >= H || column < 0 || column >= W) continue;
      for (int c = 0; c < C; ++c) sum += x[((n * C + c) * H + row) * W + column] * w[((k * C + c) * 3 + r) * 3 + s];
    }
  y[at] = sum;
}

}  // namespace

extern "C" void conv2d(const float* x, const float* w, float* y, int N, int C, int K, int H, int W, cudaStream_t stream) {
  const int64_t count = int64_t{N} * K * H * W;
  conv_kernel<<<static_cast<unsigned>((count + 127) / 128), 128, 0, stream>>>(x, w, y, count, C, K, H, W);
}
