// violates: race
// Each block also writes the first element of the next one.
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
formula = "y[i] = 2 * x[i]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int n) {
  for (int c = threadIdx.x; c < 257; c += 128) {
    const int i = blockIdx.x * 256 + c;
    if (i < n) y[i] = 2.0f * x[i];
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 128, 0, stream>>>(x, y, n);
}
