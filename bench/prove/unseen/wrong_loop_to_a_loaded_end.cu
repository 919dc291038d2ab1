// violates: race
// The first element of the next row is written as well.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["off", "x", "y", "n", "m", "stream"]
[dims]
n = { min = 1, max = 5000 }
m = { min = 1, max = 100000 }
[tensors.off]
dtype = "i32"
shape = ["n + 1"]
values = "offsets(m)"
[tensors.x]
dtype = "f32"
shape = ["m"]
[tensors.y]
dtype = "f32"
shape = ["m"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const int* off, const float* x, float* y, int n, int m) {
  int r = blockIdx.x;
  for (int j = off[r] + threadIdx.x; j <= off[r + 1] && j < m; j += 64) y[j] = (j == off[r + 1] ? 3 : 2) * x[j];
}
extern "C" void run(const int* off, const float* x, float* y, int n, int m, cudaStream_t stream) {
  cudaMemsetAsync(y, 0, 4 * size_t(m), stream);
  k<<<n, 64, 0, stream>>>(off, x, y, n, m);
}
