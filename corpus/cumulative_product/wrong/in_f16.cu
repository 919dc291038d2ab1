// assay: expect fail wrong-result, precision-loss, low-precision-accumulation
// assay: class A
// The running product is kept in eleven bits.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void product_kernel(const float* x, float* y, int M, int N) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M) return;
  float product = 1.0f;
  for (int j = 0; j < N; ++j) {
    product *= x[int64_t{row} * N + j];
    product = __uint_as_float(__float_as_uint(product) & 0xffffe000u);
    y[int64_t{row} * N + j] = product;
  }
}

}  // namespace

extern "C" void cumulative_product(const float* x, float* y, int M, int N, cudaStream_t stream) {
  product_kernel<<<(M + 127) / 128, 128, 0, stream>>>(x, y, M, N);
}
