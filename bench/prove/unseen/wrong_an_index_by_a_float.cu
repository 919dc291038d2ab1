// violates: bounds
// A float rounds up beyond 2^24.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 20000000 }
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
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) { int j = int(float(i)); y[i] = 2 * x[i] + 0 * x[j]; }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
