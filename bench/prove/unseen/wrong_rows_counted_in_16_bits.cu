// violates: overflow
// Of more than 65,440 rows the count begins again, and the loop never ends.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 90000 }
cols = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows", "cols"]
role = "out"
[reference]
formula = "y[i, j] = 3 * x[i, j]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int rows, int cols) {
  for (uint16_t row = blockIdx.x; row < rows; row += gridDim.x)
    if (threadIdx.x < cols) y[int64_t{row} * cols + threadIdx.x] = 3.0f * x[int64_t{row} * cols + threadIdx.x];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<96, 64, 0, stream>>>(x, y, rows, cols);
}
