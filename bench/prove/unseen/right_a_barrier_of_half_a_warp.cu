// right
// Neighbours meet.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 32, max = 320000, multiple_of = 32 }
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
  __shared__ float s[32];
  int t = threadIdx.x, i = blockIdx.x * 32 + t;
  s[t] = x[i];
  if (t < 16) __syncwarp(0xffff); else __syncwarp(0xffff0000);
  float v = s[t ^ 1];
  y[i ^ 1] = 2 * v;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 32, 32, 0, stream>>>(x, y);
}
