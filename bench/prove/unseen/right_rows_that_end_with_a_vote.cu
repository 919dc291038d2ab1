// right
// The vote of the block is a barrier.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1024, max = 1048576, multiple_of = 1024 }
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
__global__ void k(const float* x, float* y) {
  __shared__ float s[64];
  for (int r = 0; r < 16; ++r) {
    int i = blockIdx.x * 1024 + r * 64;
    s[threadIdx.x] = x[i + threadIdx.x];
    __syncthreads();
    y[i + 63 - threadIdx.x] = 2 * s[63 - threadIdx.x];
    __syncthreads_or(threadIdx.x);
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 1024, 64, 0, stream>>>(x, y);
}
