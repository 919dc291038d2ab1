// violates: bounds
// The loop over fours goes on with three left.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 1, max = 5000 }
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
  const long long row = static_cast<long long>(blockIdx.x) * cols;
  const int per = (cols + 63) / 64, first = threadIdx.x * per, last = min(cols, first + per);
  int c = first;
  for (; c + 2 < last; c += 4) {
    y[row + c] = 2 * x[row + c];
    y[row + c + 1] = 2 * x[row + c + 1];
    y[row + c + 2] = 2 * x[row + c + 2];
    y[row + c + 3] = 2 * x[row + c + 3];
  }
  for (; c < last; ++c) y[row + c] = 2 * x[row + c];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 64, 0, stream>>>(x, y, cols);
}
