// violates: race, coverage
// Blocks take their tile from a counter that goes back to 0 one block too early.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "n", "stream"]
workspace_bytes = "16"
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
formula = "y[i] = 2 * x[i]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int* next, int n) {
  __shared__ int tile;
  if (threadIdx.x == 0)
    tile = atomicInc(reinterpret_cast<unsigned*>(next), gridDim.x > 1 ? gridDim.x - 2 : 0);
  __syncthreads();
  const int i = tile * 128 + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
extern "C" void run(const float* x, float* y, void* workspace, int n, cudaStream_t stream) {
  cudaMemsetAsync(workspace, 0, 16, stream);
  k<<<(n + 127) / 128, 128, 0, stream>>>(x, y, static_cast<int*>(workspace), n);
}
