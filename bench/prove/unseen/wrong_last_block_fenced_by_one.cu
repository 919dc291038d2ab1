// violates: race
// Every thread leaves a sum, but only the one that draws fences it, and does so before the barrier.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "n", "stream"]
workspace_bytes = "4 + 4 * 16 * 64"
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
  __shared__ bool last;
  float most = x[0];
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 16 * 64) most = fmaxf(most, x[i]);
  partial[blockIdx.x * 64 + threadIdx.x] = most;
  if (threadIdx.x == 0) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicInc(done, 15) == 15;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 63) {
    for (int i = 0; i < 16 * 64; ++i) most = fmaxf(most, partial[i]);
    y[0] = most;
  }
}
extern "C" void run(const float* x, float* y, void* workspace, int n, cudaStream_t stream) {
  cudaMemsetAsync(workspace, 0, 4, stream);
  k<<<16, 64, 0, stream>>>(x, y, static_cast<unsigned*>(workspace), static_cast<float*>(workspace) + 1, n);
}
