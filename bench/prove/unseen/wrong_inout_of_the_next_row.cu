// violates: race
// Each row reads the next one, which another block changes.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 1000 }
cols = { min = 1, max = 1000 }
[tensors.x]
dtype = "f32"
shape = ["cols"]
[tensors.y]
dtype = "f32"
shape = ["rows", "cols"]
role = "inout"
[reference]
formula = "y[i, j] = (if i + 1 < rows then y[i + 1, j] else y[i, j]) + x[j]"
*/
__global__ void k(const float* x, float* y, int rows, int cols) {
  const size_t row = static_cast<size_t>(blockIdx.x) * cols;
  const size_t from = blockIdx.x + 1 < rows ? row + cols : row;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[row + c] = y[from + c] + x[c];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, rows, cols);
}
