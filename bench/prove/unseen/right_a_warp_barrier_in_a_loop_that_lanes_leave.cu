// right
// Lanes stay together.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 100000 }
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
  for (int base = 0; base < n; base += 32) {
    int i = base + threadIdx.x;
    float v = i < n ? x[i] : 0;
    v += 0 * __shfl_down_sync(~0u, v, 1);
    if (i < n) y[i] = 2 * v;
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 32, 0, stream>>>(x, y, n);
}
