// assay: expect pass
// A stride over all elements, counted in 64 bits.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int rows, int cols) {
  const int64_t count = int64_t{rows} * cols, stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    y[i] = __float2bfloat16(__bfloat162float(x[i]) + __bfloat162float(b[i % cols]));
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  add_kernel<<<264, 256, 0, stream>>>(x, b, y, rows, cols);
}
