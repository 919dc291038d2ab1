// violates: race
// The sum is left in an element that others read.
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
shape = ["cols"]
[tensors.y]
dtype = "f32"
shape = ["rows", "cols"]
role = "inout"
[reference]
formula = "y[i, j] = y[i, j] + x[j]"
*/
__global__ void k(const float* x, float* y, int cols) {
  float* row = y + static_cast<size_t>(blockIdx.x) * cols;
  const float first = row[0];
  
  for (int c = threadIdx.x; c < cols; c += blockDim.x) row[c] += x[c] + (first > 1e38f ? 1 : 0);
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
