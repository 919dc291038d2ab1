// violates: race
// 32 flags for all tiles: one that an earlier tile has set counts for a later one.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "n", "stream"]
workspace_bytes = "16 + 16 * ceil_div(n, 256)"
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "i32"
shape = ["n"]
values = "integers(0, 1000)"
[tensors.y]
dtype = "i32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = sum[j | j <= i](x[j])"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const int* x, int* y, unsigned* next, unsigned* flags, int* prefix, int n) {
  __shared__ int tile, before, sums[256];
  if (threadIdx.x == 0) tile = atomicAdd(next, 1u);
  __syncthreads();
  const int i = tile * 256 + threadIdx.x;
  sums[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int t = 1; t < 256; ++t) sums[t] += sums[t - 1];
    before = 0;
    if (tile > 0) {
      while (atomicAdd(&flags[(tile - 1) % 32], 0u) == 0) {
      }
      __threadfence();
      before = __ldcg(&prefix[tile - 1]);
    }
    prefix[tile] = before + sums[255];
    __threadfence();
    atomicExch(&flags[tile % 32], 1u);
  }
  __syncthreads();
  if (i < n) y[i] = before + sums[threadIdx.x];
}
extern "C" void run(const int* x, int* y, void* workspace, int n, cudaStream_t stream) {
  const int tiles = (n + 255) / 256;
  unsigned* next = static_cast<unsigned*>(workspace);
  unsigned* flags = next + 4;
  cudaMemsetAsync(workspace, 0, 16 + 8 * tiles, stream);
  k<<<tiles, 256, 0, stream>>>(x, y, next, flags, reinterpret_cast<int*>(flags + tiles), n);
}
