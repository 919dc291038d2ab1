// right
// The array has room for one more.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
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
__global__ void k(const float* x, float* y, int cols) {
  extern __shared__ float s[];
  const size_t row = static_cast<size_t>(blockIdx.x) * cols;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s[c] = x[row + c];
  if (threadIdx.x == 0) s[cols] = 2;
  __syncthreads();
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[row + c] = s[cols] * s[c];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 4 * (cols + 1), stream>>>(x, y, cols);
}
