// violates: coverage
// A size of 64 bits is handed to the kernel as an int.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 5000000000, type = "i64" }
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
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, long long n, cudaStream_t stream) {
  k<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, n);
}
