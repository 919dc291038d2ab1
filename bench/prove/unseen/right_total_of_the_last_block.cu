// right
// The last block to finish announces the total; all four wait for it.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "n", "stream"]
workspace_bytes = "64"
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
formula = "y[i] = x[i] + sum[j](x[j])"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const int* x, int* y, unsigned* done, unsigned* ready, int* sums, int* total, int n) {
  __shared__ int sum, all;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  int own = 0;
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) own += x[i];
  atomicAdd(&sum, own);
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
    __threadfence();
    if (atomicAdd(done, 1u) == gridDim.x - 1) {
      __threadfence();
      int together = 0;
      for (int b = 0; b < gridDim.x; ++b) together += __ldcg(&sums[b]);
      *total = together;
      __threadfence();
      atomicExch(ready, 1u);
    }
    while (atomicAdd(ready, 0u) == 0) {
    }
    __threadfence();
    all = __ldcg(total);
  }
  __syncthreads();
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) y[i] = x[i] + all;
}
extern "C" void run(const int* x, int* y, void* workspace, int n, cudaStream_t stream) {
  unsigned* words = static_cast<unsigned*>(workspace);
  cudaMemsetAsync(workspace, 0, 64, stream);
  k<<<4, 64, 0, stream>>>(x, y, words, words + 1, reinterpret_cast<int*>(words + 4), reinterpret_cast<int*>(words + 8), n);
}
