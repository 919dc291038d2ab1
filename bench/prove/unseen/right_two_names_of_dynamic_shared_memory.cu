// right
// Both names are of one array; a barrier between.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 64, max = 640000, multiple_of = 64 }
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
extern __shared__ float a[];
extern __shared__ int b[];
__global__ void k(const float* x, float* y) {
  int t = threadIdx.x, at = blockIdx.x * 64 + t;
  a[t] = x[at];
  __syncthreads();
  float v = __int_as_float(b[63 - t]);
  y[blockIdx.x * 64 + 63 - t] = 2 * v;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 64, 64, 256, stream>>>(x, y);
}
