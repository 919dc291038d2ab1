// right
// All lanes.
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
  int i = blockIdx.x * 64 + threadIdx.x;
  float v = i < n ? x[i] : 0;
  float z = __shfl_xor_sync(~0u, v, 1);
  if (i < n) y[i] = 2 * v + 0 * z;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
