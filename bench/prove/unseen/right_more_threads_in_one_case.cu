// right
// Room for either.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 3000000 }
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
  __shared__ float s[512];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = 2 * s[threadIdx.x];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  int threads = n / 1000 >= 731 ? 512 : 256;
  k<<<(n + threads - 1) / threads, threads, 0, stream>>>(x, y, n);
}
