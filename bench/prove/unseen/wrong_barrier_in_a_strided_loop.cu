// violates: barrier
// Threads make a different number of iterations, each with a barrier.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int n) {
  __shared__ float tile[128];
  for (int i = threadIdx.x; i < n; i += 128) {
    tile[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = tile[threadIdx.x];
    __syncthreads();
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 128, 0, stream>>>(x, y, n);
}
