// assay: expect fail concurrent-launch, data-race, wrong-result
// assay: class F
// All calls share one workspace, and calls on two streams overlap.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kRows = 64;

// Blocks of 64 rows add their columns into an fp32 workspace; the last kernel rounds.
__global__ void add_rows(const __nv_bfloat16* dy, float* sums, int T, int D) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= D) return;
  const int64_t end = min(int64_t{blockIdx.y + 1} * kRows, int64_t{T});
  float sum = 0.0f;
  for (int64_t t = int64_t{blockIdx.y} * kRows; t < end; ++t) sum += __bfloat162float(dy[t * D + d]);
  atomicAdd(&sums[d], sum);
}

__global__ void round_sums(const float* sums, __nv_bfloat16* db, int D) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d < D) db[d] = __float2bfloat16(sums[d]);
}

}  // namespace

extern "C" void bias_grad(const __nv_bfloat16* dy, __nv_bfloat16* db, float* workspace, int T, int D,
                          cudaStream_t stream) {
  static float* own = nullptr;
  if (own == nullptr) cudaMalloc(&own, 8192 * sizeof(float));
  workspace = own;
  cudaMemsetAsync(workspace, 0, D * sizeof(float), stream);
  add_rows<<<dim3((D + 127) / 128, (T + kRows - 1) / kRows), 128, 0, stream>>>(dy, workspace, T, D);
  round_sums<<<(D + 127) / 128, 128, 0, stream>>>(workspace, db, D);
}
