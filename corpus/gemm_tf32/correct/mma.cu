// assay: expect pass
// Tensor cores, a warp for each 16 x 16 tile.
#include <cuda_runtime.h>
#include <mma.h>

namespace {

using namespace nvcuda;

__global__ void gemm_kernel(const float* a, const float* b, float* y, int N, int K) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  const int m = blockIdx.y * 16, n = blockIdx.x * 16;
  for (int k = 0; k < K; k += 8) {
    wmma::load_matrix_sync(left, a + static_cast<size_t>(m) * K + k, K);
    wmma::load_matrix_sync(right, b + static_cast<size_t>(k) * N + n, N);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(y + static_cast<size_t>(m) * N + n, sum, N, wmma::mem_row_major);
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* y, int M, int N, int K, cudaStream_t stream) {
  gemm_kernel<<<dim3(N / 16, M / 16), 32, 0, stream>>>(a, b, y, N, K);
}
