// right
// Rows of multiples of four.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "R", "C", "stream"]
[dims]
R = { min = 1, max = 4096 }
C = { min = 4, max = 256, multiple_of = 4 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
[tensors.y]
dtype = "f32"
shape = ["R", "C"]
role = "out"
[reference]
formula = "y[r, c] = 2 * x[r, c]"
*/
#include <cuda_pipeline.h>
__global__ void k(const float* x, float* y, int C) {
  __shared__ __align__(16) float s[256];
  const float* row = x + size_t(blockIdx.x) * C;
  for (int c = 4 * threadIdx.x; c < C; c += 128) __pipeline_memcpy_async(&s[c], row + c, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int c = threadIdx.x; c < C; c += 32) y[size_t(blockIdx.x) * C + c] = 2 * s[c];
}
extern "C" void run(const float* x, float* y, int R, int C, cudaStream_t stream) {
  k<<<R, 32, 0, stream>>>(x, y, C);
}
