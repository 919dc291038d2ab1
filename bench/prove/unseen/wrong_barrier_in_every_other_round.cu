// violates: race
// One round in four has no barrier.
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
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[2][128];
  #pragma unroll 1
  for (int r = 0; r < 8; ++r) {
    int i = blockIdx.x * 1024 + r * 128;
    s[r & 1][threadIdx.x] = x[i + threadIdx.x];
    if (r % 4 != 3) __syncthreads();
    y[i + 127 - threadIdx.x] = 2 * s[r & 1][127 - threadIdx.x];
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 1024, 128, 0, stream>>>(x, y, n);
}
