// right
// All leave when all are done.
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
__global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[128];
  const size_t row = static_cast<size_t>(blockIdx.x) * cols;
  for (int c = threadIdx.x;; c += 128) {
    if (__syncthreads_and(c >= cols)) break;
    s[threadIdx.x] = c < cols ? x[row + c] : 0;
    __syncthreads();
    if (c < cols) y[row + c] = 2 * s[threadIdx.x];
  }
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
