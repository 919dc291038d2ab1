// assay: expect fail wrong-result
// assay: class E
// The maximum starts anew at every 512th column.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void max_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int M, int N) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M) return;
  float largest = -INFINITY;
  for (int j = 0; j < N; ++j) {
    if (j % 512 == 0) largest = -INFINITY;
    const float value = __bfloat162float(x[int64_t{row} * N + j]);
    if (value > largest || value != value) largest = value;
    y[int64_t{row} * N + j] = __float2bfloat16(largest);
  }
}

}  // namespace

extern "C" void running_max(const __nv_bfloat16* x, __nv_bfloat16* y, int M, int N, cudaStream_t stream) {
  max_kernel<<<(M + 63) / 64, 64, 0, stream>>>(x, y, M, N);
}
