// violates: bounds
// Rounded to the nearest.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "m", "stream"]
[dims]
n = { min = 1, max = 100000 }
m = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["m"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[floor(i * m / n)]"
*/
__global__ void k(const float* x, float* y, int n, int m) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = 2 * x[int(((long long)i * m + n / 2) / n)];
}
extern "C" void run(const float* x, float* y, int n, int m, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n, m);
}
