// violates: coverage
// Warps are counted along x alone, of which there are 16.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 1, max = 2000 }
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
__global__ void k(const float* x, float* y, int rows, int cols) {
  const int t = threadIdx.y * 16 + threadIdx.x, lane = t % 32;
  const int row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  float sum = 0;
  for (int c = lane; c < cols; c += 32) sum += x[static_cast<size_t>(row) * cols + c];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (lane == 0 && threadIdx.y == 0) y[row] = sum;
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<(rows + 7) / 8, dim3(16, 16), 0, stream>>>(x, y, rows, cols);
}
