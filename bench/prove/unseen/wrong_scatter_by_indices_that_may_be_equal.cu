// violates: race
// Two indices may be equal.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "idx", "y", "n", "N", "stream"]
[dims]
n = { min = 1, max = 5000 }
N = { min = 5000, max = 10000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.idx]
dtype = "i32"
shape = ["n"]
values = "index(N)"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "inout"
[reference]
formula = "y[idx[i]] max= x[i]"
*/
__global__ void k(const float* x, const int* idx, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[idx[i]] = x[i];
}
extern "C" void run(const float* x, const int* idx, float* y, int n, int N, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, idx, y, n);
}
