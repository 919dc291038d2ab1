// right
// All 64.
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
  float v = x[i];
  asm volatile("bar.sync 1, 64;" ::: "memory");
  y[i] = 2 * v;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 64, 64, 0, stream>>>(x, y);
}
