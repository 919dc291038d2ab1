// violates: bounds
// The list goes on in the next tile.
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
__global__ void kernel(const float* x, float* y, int n) {
  __shared__ int list[256];
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (int from = blockIdx.x * 256; from < n; from += gridDim.x * 256) {
    const int i = from + threadIdx.x;
    if (i < n) list[atomicAdd(&count, 1)] = i;
    __syncthreads();
    for (int j = threadIdx.x; j < count; j += 256) y[list[j]] = 2 * x[list[j]];
    __syncthreads();
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  kernel<<<64, 256, 0, stream>>>(x, y, n);
}
