// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The offset of a batch is a product of three ints.
#include <cstdint>

namespace {

// Batches on x, groups of 8 rows on y.
__global__ void scale_kernel(const float* x, const float* s, float* y, int R, int C) {
  const int b = blockIdx.x;
  for (int k = 0; k < 8; ++k) {
    const int r = blockIdx.y * 8 + k;
    if (r >= R) return;
    const int row = (b * R + r) * C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[row + c] = s[b] * x[row + c];
  }
}

}  // namespace

extern "C" void batched_scale(const float* x, const float* s, float* y, int B, int R, int C, cudaStream_t stream) {
  scale_kernel<<<dim3(B, (R + 7) / 8), 128, 0, stream>>>(x, s, y, R, C);
}
