// assay: expect fail wrong-result
// assay: class E
// The element itself is not in its product.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void product_kernel(const float* x, float* y, int M, int N) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M) return;
  float product = 1.0f;
  for (int j = 0; j < N; ++j) {
    y[int64_t{row} * N + j] = product;
    product *= x[int64_t{row} * N + j];
  }
}

}  // namespace

extern "C" void cumulative_product(const float* x, float* y, int M, int N, cudaStream_t stream) {
  product_kernel<<<(M + 127) / 128, 128, 0, stream>>>(x, y, M, N);
}
