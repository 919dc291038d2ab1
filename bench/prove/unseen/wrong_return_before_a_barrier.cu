// violates: barrier
// Threads beyond the end of the row return before the barrier.
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
  __shared__ float s[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = 2 * s[threadIdx.x];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 511) / 256, 256, 0, stream>>>(x, y, n);
}
