// assay: expect pass
// A thread for each token.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void route_kernel(const float* logits, int* expert, float* weight, int T, int E, int K) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= T) return;
  logits += int64_t{t} * E;
  expert += int64_t{t} * K;
  weight += int64_t{t} * K;
  float last = INFINITY, top = 0, sum = 0;
  int last_index = -1;
  for (int k = 0; k < K; ++k) {
    float best = -INFINITY;
    int best_index = -1;
    for (int e = 0; e < E; ++e) {
      const bool after = logits[e] < last || (logits[e] == last && e > last_index);
      if (after && (best_index < 0 || logits[e] > best)) {
        best = logits[e];
        best_index = e;
      }
    }
    if (k == 0) top = best;
    expert[k] = best_index;
    weight[k] = expf(best - top);
    sum += weight[k];
    last = best;
    last_index = best_index;
  }
  for (int k = 0; k < K; ++k) weight[k] /= sum;
}

}  // namespace

extern "C" void moe_route(const float* logits, int* expert, float* weight, int T, int E, int K, cudaStream_t stream) {
  route_kernel<<<(T + 127) / 128, 128, 0, stream>>>(logits, expert, weight, T, E, K);
}
