// right
// The left neighbour of the first element is compared as an unsigned number.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 10000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i] + (if i >= 1 then x[max(i - 1, 0)] else 0)"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, left = i - 1;
  if (i < n) y[i] = x[i] + (static_cast<unsigned>(left) < static_cast<unsigned>(n) ? x[left] : 0.0f);
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
