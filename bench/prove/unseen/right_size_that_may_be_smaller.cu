// right
// K is at most N.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "K", "N", "stream"]
[dims]
K = { min = 1, max = 5000 }
N = { min = 1, max = 5000 }
require = "K <= N"

[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["K"]
role = "out"
[reference]
formula = "y[i] = if i < N then 2 * x[i] else 0"
*/
__global__ void k(const float* x, float* y, int K) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < K) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int K, int N, cudaStream_t stream) {
  k<<<(K + 255) / 256, 256, 0, stream>>>(x, y, K);
}
