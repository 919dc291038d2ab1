// violates: bounds
// The promise allows 0, 1 and 2.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "idx", "y", "n", "stream"]
[dims]
n = { min = 1, max = 50000 }
[tensors.x]
dtype = "f32"
shape = ["2"]
[tensors.idx]
dtype = "u8"
shape = ["n"]
values = "integers(0, 2)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[min(idx[i], 1)]"
*/
__global__ void k(const float* x, const unsigned char* idx, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[idx[i]];
}
extern "C" void run(const float* x, const unsigned char* idx, float* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, idx, y, n);
}
