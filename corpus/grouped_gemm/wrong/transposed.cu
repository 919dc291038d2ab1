// assay: expect fail wrong-result, out-of-bounds
// assay: class F
// The matrices are read as N by K.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void gemm_kernel(const __nv_bfloat16* x, const int* expert, const __nv_bfloat16* w, __nv_bfloat16* y, int T, int K, int N) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
  if (n >= N) return;
  const __nv_bfloat16* matrix = w + int64_t{expert[t]} * K * N;
  float sum = 0;
  for (int k = 0; k < K; ++k)
    sum += __bfloat162float(x[int64_t{t} * K + k]) * __bfloat162float(matrix[int64_t{n} * K + k]);
  y[int64_t{t} * N + n] = __float2bfloat16(sum);
}

}  // namespace

extern "C" void grouped_gemm(const __nv_bfloat16* x, const int* expert, const __nv_bfloat16* w, __nv_bfloat16* y, int T, int K,
                             int N, cudaStream_t stream) {
  gemm_kernel<<<dim3((N + 63) / 64, T), 64, 0, stream>>>(x, expert, w, y, T, K, N);
}
