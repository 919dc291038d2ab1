// assay: expect fail nondeterministic
// assay: class I
// Four blocks share each sum and add in whatever order they finish, where the contract promises the same
// bits.
#include <cstdint>

namespace {

__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= int64_t{M} * N) return;
  const int64_t m = i / N, n = i % N;
  float sum = 0.0f;
  for (int64_t k = blockIdx.y; k < K; k += 4) sum = fmaf(a[m * K + k], b[k * N + n], sum);
  atomicAdd(&c[i], sum);
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* c, int M, int N, int K, cudaStream_t stream) {
  const int64_t count = int64_t{M} * N;
  cudaMemsetAsync(c, 0, count * sizeof(float), stream);
  product<<<dim3((count + 127) / 128, 4), 128, 0, stream>>>(a, b, c, M, N, K);
}
