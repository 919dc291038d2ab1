// assay: expect fail timeout, out-of-bounds, unwritten-output, wrong-result, data-race
// assay: class D
// A stride over all elements, counted in 32 bits without a sign: it never gets to 2^32.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int rows, int cols) {
  const int64_t count = int64_t{rows} * cols;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    y[i] = __float2bfloat16(__bfloat162float(x[i]) + __bfloat162float(b[i % cols]));
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  add_kernel<<<264, 256, 0, stream>>>(x, b, y, rows, cols);
}
