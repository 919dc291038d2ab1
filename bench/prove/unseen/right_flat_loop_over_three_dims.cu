// right
// The number of elements is a product of three dims, counted in 64 bits.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "b", "r", "c", "stream"]
[dims]
b = { min = 1, max = 65536 }
r = { min = 1, max = 4096 }
c = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["b", "r", "c"]
[tensors.y]
dtype = "f32"
shape = ["b", "r", "c"]
role = "out"
[reference]
formula = "y[i, j, k] = 2 * x[i, j, k]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int64_t count) {
  for (int64_t i = int64_t{blockIdx.x} * 128 + threadIdx.x; i < count; i += int64_t{gridDim.x} * 128) y[i] = 2.0f * x[i];
}
extern "C" void run(const float* x, float* y, int b, int r, int c, cudaStream_t stream) {
  k<<<512, 128, 0, stream>>>(x, y, int64_t{b} * r * c);
}
