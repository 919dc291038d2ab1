// assay: expect fail low-precision-accumulation, precision-loss, wrong-result
// assay: class A
// The running result is kept in f16.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void attention_kernel(const __half* q, const __half* pages_k, const __half* pages_v, const int* table,
                                 const int* length, __half* y, int M) {
  const int b = blockIdx.x, lane = threadIdx.x;
  const float query = __half2float(q[b * 32 + lane]);
  float largest = -INFINITY, sum = 0, result = 0;
  for (int j = 0; j < length[b]; ++j) {
    const int64_t at = (int64_t{table[int64_t{b} * M + j / 16]} * 16 + j % 16) * 32 + lane;
    float score = query * __half2float(pages_k[at]);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    const float next = fmaxf(largest, score), shrink = expf(largest - next), weight = expf(score - next);
    sum = sum * shrink + weight;
    result = __half2float(__float2half(result * shrink + weight * __half2float(pages_v[at])));
    largest = next;
  }
  y[b * 32 + lane] = __float2half(result / sum);
}

}  // namespace

extern "C" void paged_attention(const __half* q, const __half* pages_k, const __half* pages_v, const int* table, const int* length,
                                __half* y, int B, int P, int M, cudaStream_t stream) {
  attention_kernel<<<B, 32, 0, stream>>>(q, pages_k, pages_v, table, length, y, M);
}
