// violates: bounds, race, coverage
// As many rows in each group as in the first: too few are left out, too many belong to others or to nobody.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["offsets", "x", "y", "G", "T", "stream"]
[dims]
G = { min = 1, max = 64 }
T = { min = 1, max = 4096 }
[tensors.offsets]
dtype = "i32"
shape = ["G + 1"]
values = "offsets(T)"
[tensors.x]
dtype = "f32"
shape = ["T"]
[tensors.y]
dtype = "f32"
shape = ["T"]
role = "out"
[reference]
formula = "y[t] = 2 * x[t]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const int* offsets, const float* x, float* y) {
  const int first = offsets[blockIdx.x], rows = offsets[1] - offsets[0];
  for (int i = threadIdx.x; i < rows; i += 32) y[first + i] = 2.0f * x[first + i];
}
extern "C" void run(const int* offsets, const float* x, float* y, int G, int T, cudaStream_t stream) {
  k<<<G, 32, 0, stream>>>(offsets, x, y);
}
