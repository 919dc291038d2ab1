// right
// Blocks decide.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 64, max = 640000, multiple_of = 64 }
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
__global__ void k(const float* x, float* y) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (blockIdx.x % 3 == 0) { __syncthreads(); y[i] = 2 * x[i]; }
  else { y[i] = x[i] + x[i]; }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 64, 64, 0, stream>>>(x, y);
}
