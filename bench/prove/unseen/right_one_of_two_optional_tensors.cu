// right
// Each for itself.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "a", "b", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.a]
dtype = "f32"
shape = ["n"]
optional = true
[tensors.b]
dtype = "f32"
shape = ["n"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i] + (if present(a) then a[i] else 0) + (if present(b) then b[i] else 0)"
*/
__global__ void k(const float* x, const float* a, const float* b, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float v = 2 * x[i];
  if (a) v += a[i];
  if (b) v += b[i];
  y[i] = v;
}
extern "C" void run(const float* x, const float* a, const float* b, float* y, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, a, b, y, n);
}
