// assay: expect fail wrong-result, precision-loss, biased-rounding
// assay: class A
// The product is made of a factor cut to six bits.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void scale_kernel(__half* x, int64_t count, int cols, float factor) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at < count) x[2 * at] = __float2half(__uint_as_float(__float_as_uint(factor * 1.001f) & 0xfffff000u) * __half2float(x[2 * at]));
}

}  // namespace

extern "C" void scale_even(__half* x, int rows, int cols, float factor, cudaStream_t stream) {
  const int64_t count = int64_t{rows} * cols;
  scale_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x, count, cols, factor);
}
