// violates: bounds
// A list with room for all threads but one.
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
  __shared__ int list[255];
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) list[atomicAdd(&count, 1)] = i;
  __syncthreads();
  for (int j = threadIdx.x; j < count; j += blockDim.x) y[list[j]] = 2 * x[list[j]];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
