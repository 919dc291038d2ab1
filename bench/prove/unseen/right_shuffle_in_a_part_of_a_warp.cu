// right
// All warps are whole.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["1"]
role = "out"
[reference]
formula = "y[z] = sum[i](x[i])"
*/
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[2];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[0] = s[0] + s[1];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 64, 0, stream>>>(x, y, n);
}
