// assay: expect fail out-of-bounds, unwritten-output, wrong-result
// assay: class F
// The rows of all groups are taken to follow those of the first.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

// A block for each group; its threads go over the elements of the group's result.
__global__ void grouped_kernel(const __nv_bfloat16* const* a, const __nv_bfloat16* const* w, __nv_bfloat16* const* y,
                               const int* offsets, int G, int K, int N) {
  const int group = blockIdx.x;
  const int rows = offsets[group + 1] - offsets[group];
  const __nv_bfloat16* left = a[0] + offsets[group] * K;
  const __nv_bfloat16* right = w[group];
  __nv_bfloat16* result = y[0] + offsets[group] * N;
  for (int i = threadIdx.x; i < rows * N; i += blockDim.x) {
    const int m = i / N, n = i % N;
    float sum = 0;
    for (int k = 0; k < K; ++k)
      sum += __bfloat162float(left[m * K + k]) * __bfloat162float(right[k * N + n]);
    result[i] = __float2bfloat16(sum);
  }
}

}  // namespace

extern "C" void grouped_gemm(const __nv_bfloat16* const* a, const __nv_bfloat16* const* w, __nv_bfloat16* const* y,
                             const int* offsets, int G, int K, int N, cudaStream_t stream) {
  grouped_kernel<<<G, 256, 0, stream>>>(a, w, y, offsets, G, K, N);
}
