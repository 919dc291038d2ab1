// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// As many batches in one launch as 32 bits can count, but where each launch begins is counted in 32 bits as well.
#include <cstdint>

namespace {

__global__ void scale_kernel(const float* x, const float* s, float* y, int64_t matrix, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = s[i / matrix] * x[i];
}

}  // namespace

extern "C" void batched_scale(const float* x, const float* s, float* y, int B, int R, int C, cudaStream_t stream) {
  const int64_t matrix = int64_t{R} * C;
  constexpr int64_t kMost = (int64_t{1} << 31) / 4;  // batches for one launch, in elements
  const int64_t together = matrix < kMost ? kMost / matrix : 1;
  for (int64_t b = 0; b < B; b += together) {
    const int64_t count = (B - b < together ? B - b : together) * matrix;
    const int first = static_cast<int>(b) * static_cast<int>(matrix);
    scale_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x + first, s + b, y + first, matrix, count);
  }
}
