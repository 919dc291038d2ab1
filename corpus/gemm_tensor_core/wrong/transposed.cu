// assay: expect fail wrong-result, out-of-bounds
// assay: class F
// The right operand is read as column-major.
#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

namespace {

using namespace nvcuda;

// A warp for each 16 x 16 tile of c, by the wmma interface. The sums go through shared memory to be rounded.
__global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int N, int K) {
  __shared__ float tile[16 * 16];
  const int64_t row = int64_t{blockIdx.y} * 16, col = int64_t{blockIdx.x} * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right;
    wmma::load_matrix_sync(left, a + row * K + k, K);
    wmma::load_matrix_sync(right, b + int64_t{k} * N + col, N);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(tile, sum, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32)
    c[(row + i / 16) * N + col + i % 16] = __float2bfloat16(tile[i]);
}

}  // namespace

extern "C" void gemm_tensor_core(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M,
                                 int N, int K, cudaStream_t stream) {
  product<<<dim3(N / 16, M / 16), 32, 0, stream>>>(a, b, c, N, K);
}
