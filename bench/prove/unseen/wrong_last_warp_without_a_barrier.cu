// violates: race
// The lanes of the last warp add without waiting for each other.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 4096 }
cols = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows"]
role = "out"
[reference]
formula = "y[i] = sum[j](x[i, j])"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int cols) {
  __shared__ float part[64];
  part[threadIdx.x] = threadIdx.x < cols ? x[int64_t{blockIdx.x} * cols + threadIdx.x] : 0.0f;
  __syncthreads();
  if (threadIdx.x < 32) part[threadIdx.x] += part[threadIdx.x + 32];
  for (int step = 16; step > 0; step /= 2) {
    
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 64, 0, stream>>>(x, y, cols);
}
