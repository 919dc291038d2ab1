// right
// The block meets.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 128, max = 1048576, multiple_of = 128 }
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
#include <cuda_pipeline.h>
__global__ void k(const float* x, float* y, int n) {
  __shared__ __align__(16) float s[128];
  int base = blockIdx.x * 128;
  __pipeline_memcpy_async(&s[threadIdx.x], x + base + threadIdx.x, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  y[base + threadIdx.x] = 2 * s[threadIdx.x ^ 32] * 0 + 2 * s[threadIdx.x];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 128, 128, 0, stream>>>(x, y, n);
}
