// assay: expect fail precision-loss, low-precision-accumulation, wrong-result
// assay: class A
// One operand is rounded to bf16, which has three bits less than tf32.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

__global__ void gemm_kernel(const float* a, const float* b, float* y, int M, int N, int K) {
  const int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
  if (m >= M || n >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += __bfloat162float(__float2bfloat16(a[static_cast<size_t>(m) * K + k])) * b[static_cast<size_t>(k) * N + n];
  y[static_cast<size_t>(m) * N + n] = sum;
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* y, int M, int N, int K, cudaStream_t stream) {
  gemm_kernel<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16), 0, stream>>>(a, b, y, M, N, K);
}
