// violates: bounds
// The indices are for a table of M rows.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "idx", "y", "n", "M", "N", "stream"]
[dims]
n = { min = 1, max = 100000 }
M = { min = 1, max = 5000 }
N = { min = 1, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.idx]
dtype = "i32"
shape = ["n"]
values = "index(M)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[min(idx[i], N - 1)]"
*/
__global__ void k(const float* x, const int* idx, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[idx[i]];
}
extern "C" void run(const float* x, const int* idx, float* y, int n, int, int, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, idx, y, n);
}
