// assay: expect fail unwritten-output, wrong-result
// assay: class G
// Slots without a token are left as they are.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void dispatch_kernel(const __half* x, const int* token, __half* y, int64_t count, int D) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= count) return;
  const int64_t s = at / D;
  if (token[s] >= 0) y[at] = x[int64_t{token[s]} * D + at % D];
}

}  // namespace

extern "C" void dispatch(const __half* x, const int* token, __half* y, int S, int D, cudaStream_t stream) {
  const int64_t count = int64_t{S} * D;
  dispatch_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x, token, y, count, D);
}
