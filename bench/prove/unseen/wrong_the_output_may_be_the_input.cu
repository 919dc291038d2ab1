// violates: race
// The next element is read as well.
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
may_alias = "x"
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) { float v = i + 1 < n ? x[i + 1] : 0; y[i] = 2 * x[i] + 0 * v; };
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
