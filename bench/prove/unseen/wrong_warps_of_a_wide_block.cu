// violates: bounds, race
// There may be 32 warps, and there is room for 8.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 10000 }
cols = { min = 1, max = 1024 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows"]
role = "out"
[reference]
formula = "y[i] = sum[j](x[i, j])"
*/
__global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[8];
  float v = threadIdx.x < cols ? x[static_cast<size_t>(blockIdx.x) * cols + threadIdx.x] : 0;
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += s[w];
  y[blockIdx.x] = sum;
}
extern "C" void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  k<<<rows, (cols + 31) / 32 * 32, 0, stream>>>(x, y, cols);
}
