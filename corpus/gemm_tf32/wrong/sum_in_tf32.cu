// assay: expect fail low-precision-accumulation, precision-loss, biased-rounding, wrong-result
// assay: class A
// The sum itself is cut to tf32 after every step.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

__global__ void gemm_kernel(const float* a, const float* b, float* y, int M, int N, int K) {
  const int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
  if (m >= M || n >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum = __uint_as_float(__float_as_uint(sum + a[static_cast<size_t>(m) * K + k] * b[static_cast<size_t>(k) * N + n]) & 0xffffe000u);
  y[static_cast<size_t>(m) * N + n] = sum;
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* y, int M, int N, int K, cudaStream_t stream) {
  gemm_kernel<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(a, b, y, M, N, K);
}
