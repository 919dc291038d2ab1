// right
// Rows are multiples of four.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 4, max = 4096, multiple_of = 4 }
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
  const size_t row = static_cast<size_t>(blockIdx.x) * cols;
  for (int c = 4 * threadIdx.x; c + 3 < cols; c += 4 * blockDim.x) {
    float4 v = *reinterpret_cast<const float4*>(x + row + c);
    v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
    *reinterpret_cast<float4*>(y + row + c) = v;
  }
  for (int c = cols / 4 * 4 + threadIdx.x; c < cols; c += blockDim.x) y[row + c] = 2 * x[row + c];
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, 128, 0, stream>>>(x, y, cols);
}
