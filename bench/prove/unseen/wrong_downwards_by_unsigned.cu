// violates: bounds, overflow
// An unsigned counter is never below 0.
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
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const float* x, float* y, int n) {
  for (unsigned i = n - 1 - threadIdx.x; static_cast<int>(i + blockDim.x) >= 0; i -= blockDim.x) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 256, 0, stream>>>(x, y, n);
}
