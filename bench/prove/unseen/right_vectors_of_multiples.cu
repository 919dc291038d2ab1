// right
// Rows are multiples of four elements.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 1, max = 4096 }
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

__global__ void k(const float* x, float* y, int cols) {
  const float* from = x + int64_t{blockIdx.x} * cols;
  float* to = y + int64_t{blockIdx.x} * cols;
  int done = 0;
  if (cols % 4 == 0) {
    for (int i = 4 * threadIdx.x; i + 3 < cols; i += 4 * blockDim.x) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      *reinterpret_cast<float4*>(to + i) = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
    }
    done = cols / 4 * 4;
  }
  for (int i = done + threadIdx.x; i < cols; i += blockDim.x) to[i] = 2.0f * from[i];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
