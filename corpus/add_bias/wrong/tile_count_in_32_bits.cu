// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The first element of a tile, not the number of tiles, wraps: tile times its 1024 elements.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__device__ bf16 sum(bf16 x, bf16 b) {
  return __float2bfloat16(__bfloat162float(x) + __bfloat162float(b));
}

// Each block has 1024 elements in a row.
__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int64_t count, int cols) {
  const int first = blockIdx.x * 1024;
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) {
    const int64_t i = first + k;
    if (i < count) y[i] = sum(x[i], b[i % cols]);
  }
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  const int64_t count = int64_t{rows} * cols;
  add_kernel<<<static_cast<unsigned>((count + 1023) / 1024), 256, 0, stream>>>(x, b, y, count, cols);
}
