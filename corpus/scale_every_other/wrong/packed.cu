// assay: expect fail wrong-result, out-of-bounds
// assay: class F
// The columns are taken to follow each other.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void scale_kernel(__half* x, int64_t count, int cols, float factor) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at < count) x[at] = __float2half(factor * __half2float(x[at]));
}

}  // namespace

extern "C" void scale_even(__half* x, int rows, int cols, float factor, cudaStream_t stream) {
  const int64_t count = int64_t{rows} * cols;
  scale_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x, count, cols, factor);
}
