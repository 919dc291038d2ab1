// violates: coverage
// The index is an int, and never gets beyond 2^31.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 4000000000, type = "u32" }
[tensors.x]
dtype = "i8"
shape = ["n"]
[tensors.y]
dtype = "i8"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
*/
__global__ void k(const signed char* x, signed char* y, unsigned n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 0 && i < n) y[i] = x[i];
}
extern "C" void run(const signed char* x, signed char* y, unsigned n, cudaStream_t stream) {
  k<<<(n + 255ull) / 256, 256, 0, stream>>>(x, y, n);
}
