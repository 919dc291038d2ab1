// right
// Two buffers by turns need one barrier.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 4096 }
cols = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows"]
role = "out"
[reference]
formula = "y[i] = sum[j](x[i, j])"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* x, float* y, int cols) {
  __shared__ float buffer[2][128];
  const float* row = x + int64_t{blockIdx.x} * cols;
  float sum = 0.0f;
  int turn = 0;
  for (int from = 0; from < cols; from += 128, turn ^= 1) {
    buffer[turn][threadIdx.x] = from + static_cast<int>(threadIdx.x) < cols ? row[from + threadIdx.x] : 0.0f;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < 128; ++i) sum += buffer[turn][i] + 0.0f;
  }
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
