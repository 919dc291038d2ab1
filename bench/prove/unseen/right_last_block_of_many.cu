// right
// The last block, all of its threads, takes the largest of what the blocks have left; how many blocks there are depends on n.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "n", "stream"]
workspace_bytes = "8 + 4 * ceil_div(n, 256)"
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[require]
nonfinite = "ignore"
[reference]
formula = "y[i] = max[k](x[k])"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, unsigned* done, float* partial, int n) {
  __shared__ float tile[256];
  __shared__ int last;
  const int i = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x] = x[i < n ? i : n - 1];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) tile[threadIdx.x] = fmaxf(tile[threadIdx.x], tile[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = tile[0];
    __threadfence();
    last = atomicAdd(done, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  float most = partial[0];
  for (int j = threadIdx.x; j < gridDim.x; j += 256) most = fmaxf(most, partial[j]);
  tile[threadIdx.x] = most;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) tile[threadIdx.x] = fmaxf(tile[threadIdx.x], tile[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) y[0] = tile[0];
}
extern "C" void run(const float* x, float* y, void* workspace, int n, cudaStream_t stream) {
  cudaMemsetAsync(workspace, 0, 8, stream);
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, static_cast<unsigned*>(workspace),
                                         static_cast<float*>(workspace) + 2, n);
}
