// violates: race
// The barrier counts one of the two warps that exchange.
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
  __shared__ float s[64];
  const int i = blockIdx.x * 64 + threadIdx.x, j = blockIdx.x * 64 + 63 - threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0;
  asm volatile("bar.sync 1, 32;" ::: "memory");
  if (j < n) y[j] = 2 * s[63 - threadIdx.x];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
