// right
// Within.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000 }
[tensors.x]
dtype = "f32"
shape = ["n", "n"]
[tensors.y]
dtype = "f32"
shape = ["n", "n"]
role = "out"
[reference]
formula = "y[i, j] = if j <= i then x[i, j] else 0"
*/
__global__ void k(const float* x, float* y, int n) {
  int r = blockIdx.x;
  for (int c = threadIdx.x; c < n; c += 64) y[r * n + c] = c <= r ? x[r * n + c] : 0;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n, 64, 0, stream>>>(x, y, n);
}
