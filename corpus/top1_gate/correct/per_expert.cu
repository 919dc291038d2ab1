// assay: expect pass
// A block for each expert numbers its tokens by ballots, in order.
#include <cuda_runtime.h>
#include <math_constants.h>

#include <cstdint>

__device__ void better(float& v, int& i, float w, int j) {
  if (w > v || (w == v && j < i)) v = w, i = j;
}
__global__ void choose(const float* g, int* expert, int T, int E) {
  const int t = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (t >= T) return;
  float v = -CUDART_INF_F;
  int i = 1 << 30;
  for (int e = lane; e < E; e += 32) better(v, i, g[int64_t(t) * E + e], e);
  for (int m = 16; m; m /= 2) {
    const float w = __shfl_xor_sync(~0u, v, m);
    const int j = __shfl_xor_sync(~0u, i, m);
    better(v, i, w, j);
  }
  if (lane == 0) expert[t] = i;
}
__global__ void number(const int* expert, int* slot, int T, int capacity) {
  // One block for each expert; tokens in order, 256 at a time.
  __shared__ int warps[8];
  int before = 0;
  for (int base = 0; base < T; base += 256) {
    const int t = base + threadIdx.x;
    const bool mine = t < T && expert[t] == blockIdx.x;
    const unsigned b = __ballot_sync(~0u, mine);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = __popc(b);
    __syncthreads();
    int place = before + __popc(b & ((1u << (threadIdx.x % 32)) - 1)), all = 0;
    for (int w = 0; w < 8; ++w) {
      if (w < threadIdx.x / 32) place += warps[w];
      all += warps[w];
    }
    if (mine) slot[t] = place < capacity ? place : -1;
    before += all;
    __syncthreads();
  }
}
extern "C" void gate(const float* g, int* expert, int* slot, int T, int E, int capacity, int*,
                     cudaStream_t stream) {
  choose<<<(T + 3) / 4, 128, 0, stream>>>(g, expert, T, E);
  number<<<E, 256, 0, stream>>>(expert, slot, T, capacity);
}
