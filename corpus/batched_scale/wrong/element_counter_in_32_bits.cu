// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// Each block has a matrix and its threads count elements of all matrices in 32 bits.
#include <cstdint>

namespace {

__global__ void scale_kernel(const float* x, const float* s, float* y, int R, int C) {
  const unsigned matrix = static_cast<unsigned>(R) * C;
  const unsigned first = blockIdx.x * matrix, end = first + matrix;
  for (unsigned i = first + threadIdx.x; i < end; i += blockDim.x) y[i] = s[blockIdx.x] * x[i];
}

}  // namespace

extern "C" void batched_scale(const float* x, const float* s, float* y, int B, int R, int C, cudaStream_t stream) {
  scale_kernel<<<B, 256, 0, stream>>>(x, s, y, R, C);
}
