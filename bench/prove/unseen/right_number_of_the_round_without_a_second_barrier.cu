// right
// A barrier stands in between.
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
  __shared__ int first;
  for (int round = 0; round < 4; ++round) {
    if (threadIdx.x == 0) first = blockIdx.x * 1024 + round * 256;
    __syncthreads();
    const int i = first + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
    __syncthreads();
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 1023) / 1024, 256, 0, stream>>>(x, y, n);
}
