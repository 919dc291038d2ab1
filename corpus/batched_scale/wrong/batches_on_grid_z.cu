// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// Batches are on the z axis of the grid, which ends at 65535.
#include <cstdint>

namespace {

// Batches on z, groups of 8 rows on y.
__global__ void scale_kernel(const float* x, const float* s, float* y, int R, int C) {
  const int64_t b = blockIdx.z;
  for (int k = 0; k < 8; ++k) {
    const int r = blockIdx.y * 8 + k;
    if (r >= R) return;
    const int64_t row = (b * R + r) * C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[row + c] = s[b] * x[row + c];
  }
}

}  // namespace

extern "C" void batched_scale(const float* x, const float* s, float* y, int B, int R, int C, cudaStream_t stream) {
  scale_kernel<<<dim3(1, (R + 7) / 8, B), 128, 0, stream>>>(x, s, y, R, C);
}
