// assay: expect fail wrong-result, nonfinite
// assay: class E
// A query does not see its own key.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kChannels = 32;

__global__ void attention_kernel(const float* q, const float* k, const float* v, float* y, int queries, int keys,
                                 int causal) {
  const int query = blockIdx.x, lane = threadIdx.x;
  const int seen = causal ? keys - queries + query + (query > 0 || keys > queries ? 0 : 1) : keys;
  const float own = q[query * kChannels + lane];
  float largest = -INFINITY, sum = 0, out = 0;
  for (int j = 0; j < seen; ++j) {
    float score = own * k[j * kChannels + lane];
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
    score *= 0.17677669529663687f;
    const float next = score > largest || score != score ? score : largest;
    if (next == -INFINITY) continue;  // nothing to weigh yet
    const float shrink = expf(largest - next), weight = expf(score - next);
    sum = sum * shrink + weight;
    out = out * shrink + weight * v[j * kChannels + lane];
    largest = next;
  }
  y[query * kChannels + lane] = out / sum;
}

}  // namespace

extern "C" void attention(const float* q, const float* k, const float* v, float* y, int Q, int T, int causal,
                          cudaStream_t stream) {
  attention_kernel<<<Q, kChannels, 0, stream>>>(q, k, v, y, Q, T, causal);
}
