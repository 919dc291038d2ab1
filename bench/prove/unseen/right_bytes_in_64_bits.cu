// right
// The offset in bytes has 64 bits.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 100000 }
cols = { min = 1, max = 8192 }
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

__global__ void k(const char* x, char* y, int cols) {
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * cols + c) * 4;
    *reinterpret_cast<float*>(y + at) = 2.0f * *reinterpret_cast<const float*>(x + at);
  }
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 256, 0, stream>>>(reinterpret_cast<const char*>(x), reinterpret_cast<char*>(y), cols);
}
