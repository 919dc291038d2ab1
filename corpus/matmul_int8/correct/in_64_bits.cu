// assay: expect pass
// Products of int8: a warp for each sum, in 64 bits.
#include <cstdint>

namespace {

__global__ void matmul_kernel(const int8_t* a, const int8_t* b, float* y, float scale, int M, int N, int K) {
  const int64_t sum_of = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (sum_of >= int64_t{M} * N) return;
  const int8_t* row = a + sum_of / N * K;
  const int8_t* other = b + sum_of % N * K;
  long long sum = 0;
  for (int k = threadIdx.x % 32; k < K; k += 32) sum += row[k] * other[k];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) y[sum_of] = static_cast<float>(scale * static_cast<double>(sum));
}

}  // namespace

extern "C" void matmul_int8(const int8_t* a, const int8_t* b, float* y, float scale, int M, int N, int K,
                            cudaStream_t stream) {
  const int64_t warps = int64_t{M} * N;
  matmul_kernel<<<static_cast<unsigned>((warps + 7) / 8), 256, 0, stream>>>(a, b, y, scale, M, N, K);
}
