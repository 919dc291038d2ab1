// assay: expect fail wrong-result
// assay: class F
// The slot is taken from the first element of the block.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void dispatch_kernel(const __half* x, const int* token, __half* y, int64_t count, int D) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= count) return;
  const int64_t s = blockIdx.x * int64_t{blockDim.x} / D;
  y[at] = token[s] >= 0 ? x[int64_t{token[s]} * D + at % D] : __float2half(0.0f);
}

}  // namespace

extern "C" void dispatch(const __half* x, const int* token, __half* y, int S, int D, cudaStream_t stream) {
  const int64_t count = int64_t{S} * D;
  dispatch_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x, token, y, count, D);
}
