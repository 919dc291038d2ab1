// assay: expect pass
// A warp for each query and head.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

// A warp for each query: scores one after the other, the sum rescaled when a larger one comes.
__global__ void attention_kernel(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* y,
                                 int H, int G, int T) {
  constexpr int D = 64;
  const int i = blockIdx.x, h = blockIdx.y, lane = threadIdx.x;
  const int kv = h / G, heads = H / G;
  const __nv_bfloat16* query = q + (int64_t{i} * H + h) * D;
  const float q0 = __bfloat162float(query[lane]), q1 = __bfloat162float(query[lane + 32]);
  float largest = -INFINITY, sum = 0, y0 = 0, y1 = 0;
  for (int j = 0; j <= i; ++j) {
    const int64_t at = (int64_t{j} * heads + kv) * D;
    float score = q0 * __bfloat162float(k[at + lane]) + q1 * __bfloat162float(k[at + lane + 32]);
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    score *= 0.125f;
    const float next = fmaxf(largest, score), shrink = expf(largest - next), weight = expf(score - next);
    sum = sum * shrink + weight;
    y0 = y0 * shrink + weight * __bfloat162float(v[at + lane]);
    y1 = y1 * shrink + weight * __bfloat162float(v[at + lane + 32]);
    largest = next;
  }
  __nv_bfloat16* out = y + (int64_t{i} * H + h) * D;
  out[lane] = __float2bfloat16(y0 / sum);
  out[lane + 32] = __float2bfloat16(y1 / sum);
}

}  // namespace

extern "C" void attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* y, int T, int H,
                          int G, cudaStream_t stream) {
  attention_kernel<<<dim3(T, H), 32, 0, stream>>>(q, k, v, y, H, G, T);
}
