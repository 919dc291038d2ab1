// violates: coverage
// The last chunk is launched only if it is whole.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 4000000 }
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
__global__ void k(const float* x, float* y, int from, int n) {
  const int i = from + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  const int chunk = 1 << 20;
  for (int from = 0; from + chunk <= n || from == 0; from += chunk) k<<<chunk / 256, 256, 0, stream>>>(x, y, from, n);
}
