// violates: overflow, coverage, race
// Rows from 65,536 on are those of a smaller number.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 70000 }
cols = { min = 1, max = 128 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows", "cols"]
role = "out"
[reference]
formula = "y[i, j] = 2 * x[i, j]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int rows, int cols) {
  const unsigned short row = static_cast<unsigned short>(blockIdx.x);
  const int64_t at = int64_t{row} * cols + threadIdx.x;
  if (threadIdx.x < cols) y[at] = 2.0f * x[at];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, rows, cols);
}
