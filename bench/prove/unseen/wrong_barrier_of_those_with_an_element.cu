// violates: barrier
// In the last block only some threads come to the barrier.
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
  __shared__ float tile[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    tile[threadIdx.x] = x[i];
    __syncthreads();
  }
  if (i < n) y[i] = tile[threadIdx.x];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
