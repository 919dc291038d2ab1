// violates: coverage
// The middle one of an odd number is left out.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 2, max = 1000000 }
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
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  int half = n / 2;
  int rest = (n + 1) / 2, small = n - rest;
  k<<<(half + 255) / 256, 256, 0, stream>>>(x, y, half);
  k<<<(rest + 255) / 256, 256, 0, stream>>>(x + rest, y + rest, small);
}
