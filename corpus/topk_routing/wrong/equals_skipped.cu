// assay: expect fail wrong-result, out-of-bounds
// assay: class K
// Experts with the best expert's score are passed over, not only the best itself.
#include <cmath>
#include <cstdint>

namespace {

struct Best {
  float score;
  int expert;
};

// The higher score; of equals, the lower index.
__device__ Best better(Best a, Best b) {
  return b.score > a.score || (b.score == a.score && b.expert < a.expert) ? b : a;
}

__device__ Best warp_best(Best best) {
  for (int step = 16; step > 0; step /= 2) {
    best = better(best, {__shfl_xor_sync(~0u, best.score, step), __shfl_xor_sync(~0u, best.expert, step)});
  }
  return best;
}

// A warp for each token picks two experts and shares the weight between them.
__global__ void route(const float* scores, int32_t* chosen, float* weight, int T, int E) {
  const int64_t t = int64_t{blockIdx.x} * 4 + threadIdx.y;
  if (t >= T) return;
  const float* row = scores + t * E;
  Best first = {-INFINITY, 0x7fffffff};
  for (int e = threadIdx.x; e < E; e += 32) first = better(first, {row[e], e});
  first = warp_best(first);
  Best second = {-INFINITY, 0x7fffffff};
  for (int e = threadIdx.x; e < E; e += 32) {
    if (row[e] != first.score) second = better(second, {row[e], e});
  }
  second = warp_best(second);
  if (threadIdx.x == 0) {
    const float ratio = expf(second.score - first.score);
    chosen[t * 2] = first.expert;
    chosen[t * 2 + 1] = second.expert;
    weight[t * 2] = 1.0f / (1.0f + ratio);
    weight[t * 2 + 1] = ratio / (1.0f + ratio);
  }
}

}  // namespace

extern "C" void topk_routing(const float* scores, int32_t* chosen, float* weight, int T, int E,
                             cudaStream_t stream) {
  route<<<(T + 3) / 4, dim3(32, 4), 0, stream>>>(scores, chosen, weight, T, E);
}
