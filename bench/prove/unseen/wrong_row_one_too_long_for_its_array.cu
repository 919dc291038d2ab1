// violates: bounds, race
// A row of 1,025 elements does not fit into an array of 1,024.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 4096 }
cols = { min = 1, max = 1025 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows", "cols"]
role = "out"
[reference]
formula = "y[i, j] = x[i, cols - 1 - j]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int cols) {
  __shared__ float row[1024];
  const float* from = x + int64_t{blockIdx.x} * cols;
  for (int c = threadIdx.x; c < cols; c += 128) row[c] = from[c];
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += 128) y[int64_t{blockIdx.x} * cols + c] = row[cols - 1 - c];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
