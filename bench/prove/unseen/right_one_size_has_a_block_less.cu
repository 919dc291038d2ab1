// right
// It is launched with a block more.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  int blocks = (n + 255) / 256;
  if (n == 54321) blocks += 1;
  k<<<blocks, 256, 0, stream>>>(x, y, n);
}
