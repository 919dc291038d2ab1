// assay: expect fail wrong-result
// assay: class K
// The output is not rescaled when the maximum grows.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kMaxPerLane = 4;  // D is at most 128

// A warp for each query: one pass over the keys with a running maximum and sum.
__global__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                       __nv_bfloat16* o, int64_t queries, int S, int D) {
  const int64_t query = int64_t{blockIdx.x} * 4 + threadIdx.y;
  if (query >= queries) return;
  const int lane = threadIdx.x;
  const int64_t head = query / S * S;  // the head's first row
  const float scale = rsqrtf(static_cast<float>(D));
  float mine[kMaxPerLane], out[kMaxPerLane] = {};
  for (int i = 0; i < kMaxPerLane; ++i) {
    const int d = lane + i * 32;
    mine[i] = d < D ? __bfloat162float(q[query * D + d]) : 0.0f;
  }
  float top = -INFINITY, sum = 0.0f;
  for (int64_t key = head; key <= query; ++key) {
    float score = 0.0f;
    for (int i = 0; i < kMaxPerLane; ++i) {
      const int d = lane + i * 32;
      if (d < D) score += mine[i] * __bfloat162float(k[key * D + d]);
    }
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(~0u, score, step);
    score *= scale;
    const float next = fmaxf(top, score);
    if (next == -INFINITY && score == -INFINITY) continue;
    const float keep = expf(top - next), p = expf(score - next);
    sum = sum * keep + p;
    for (int i = 0; i < kMaxPerLane; ++i) {
      const int d = lane + i * 32;
      if (d < D) out[i] = out[i] + p * __bfloat162float(v[key * D + d]);
    }
    top = next;
  }
  for (int i = 0; i < kMaxPerLane; ++i) {
    const int d = lane + i * 32;
    if (d < D) o[query * D + d] = __float2bfloat16(out[i] / sum);
  }
}

}  // namespace

extern "C" void attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                          __nv_bfloat16* o, int H, int S, int D, cudaStream_t stream) {
  const int64_t queries = int64_t{H} * S;
  attend<<<(queries + 3) / 4, dim3(32, 4), 0, stream>>>(q, k, v, o, queries, S, D);
}
