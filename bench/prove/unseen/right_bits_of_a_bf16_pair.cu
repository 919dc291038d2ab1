// right
// Rows are pairs.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 2, max = 4096, multiple_of = 2 }
[tensors.x]
dtype = "bf16"
shape = ["rows", "cols"]
align = 4
[tensors.y]
dtype = "bf16"
shape = ["rows", "cols"]
role = "out"
align = 4
[reference]
formula = "y[i, j] = x[i, j]"
*/
#include <cuda_bf16.h>
__global__ void k(const __nv_bfloat16* x, __nv_bfloat16* y, int cols) {
  const size_t row = static_cast<size_t>(blockIdx.x) * cols;
  for (int c = 2 * threadIdx.x; c + 1 < cols; c += 2 * blockDim.x)
    *reinterpret_cast<__nv_bfloat162*>(y + row + c) = *reinterpret_cast<const __nv_bfloat162*>(x + row + c);
  if (cols % 2 && threadIdx.x == 0) y[row + cols - 1] = x[row + cols - 1];
}
extern "C" void run(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
