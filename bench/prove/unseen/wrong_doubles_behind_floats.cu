// violates: alignment
// An odd number of floats comes before the doubles.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 2, max = 2048 }
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
  extern __shared__ double memory[];
  float* a = reinterpret_cast<float*>(memory);
  double* b = reinterpret_cast<double*>(a + cols);
  const size_t row = static_cast<size_t>(blockIdx.x) * cols;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) a[c] = x[row + c], b[c] = 2.0 * a[c];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[row + c] = static_cast<float>(b[c]);
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 12 * cols + 8, stream>>>(x, y, cols);
}
