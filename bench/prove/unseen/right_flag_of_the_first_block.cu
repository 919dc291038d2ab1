// right
// What the first block announces behind a fence.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "n", "stream"]
workspace_bytes = "16"
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i] + x[0]"
*/
#include <cuda_runtime.h>

#include <cstdint>

// Block 0 announces the first element; the others wait for it.
__global__ void k(const float* x, float* y, volatile unsigned* ready, float* first, int n) {
  __shared__ float base;
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) {
      *first = x[0];
      __threadfence();
      atomicExch(const_cast<unsigned*>(ready), 1u);
    } else {
      while (*ready == 0) {
      }
    }
    __threadfence();
    base = __ldcg(first);
  }
  __syncthreads();
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) y[i] = x[i] + base;
}
extern "C" void run(const float* x, float* y, void* workspace, int n, cudaStream_t stream) {
  cudaMemsetAsync(workspace, 0, 16, stream);
  k<<<4, 64, 0, stream>>>(x, y, static_cast<unsigned*>(workspace), static_cast<float*>(workspace) + 1, n);
}
