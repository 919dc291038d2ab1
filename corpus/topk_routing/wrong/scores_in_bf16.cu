// assay: expect fail precision-loss, low-precision-accumulation, wrong-result
// assay: class A
// The scores are rounded to bf16 before their difference is taken.
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>

namespace {

// A thread for each token walks over the experts once.
__global__ void route(const float* scores, int32_t* chosen, float* weight, int T, int E) {
  const int64_t t = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= T) return;
  const float* row = scores + t * E;
  int first = row[0] >= row[1] ? 0 : 1;
  int second = 1 - first;
  for (int e = 2; e < E; ++e) {
    if (row[e] > row[first]) {
      second = first;
      first = e;
    } else if (row[e] > row[second]) {
      second = e;
    }
  }
  const float ratio =
      expf(__bfloat162float(__float2bfloat16(row[second])) - __bfloat162float(__float2bfloat16(row[first])));
  chosen[t * 2] = first;
  chosen[t * 2 + 1] = second;
  weight[t * 2] = 1.0f / (1.0f + ratio);
  weight[t * 2 + 1] = ratio / (1.0f + ratio);
}

}  // namespace

extern "C" void topk_routing(const float* scores, int32_t* chosen, float* weight, int T, int E,
                             cudaStream_t stream) {
  route<<<(T + 127) / 128, 128, 0, stream>>>(scores, chosen, weight, T, E);
}
