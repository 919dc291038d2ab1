// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The number of elements is a product of ints.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__device__ bf16 sum(bf16 x, bf16 b) {
  return __float2bfloat16(__bfloat162float(x) + __bfloat162float(b));
}

__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int64_t count, int cols) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = sum(x[i], b[i % cols]);
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  const int64_t count = rows * cols;
  add_kernel<<<static_cast<unsigned>((count + 1023) / 1024), 1024, 0, stream>>>(x, b, y, count, cols);
}
