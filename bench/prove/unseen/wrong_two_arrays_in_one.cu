// violates: race
// The second array begins in the middle of the first.
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
  extern __shared__ char memory[];
  float* a = reinterpret_cast<float*>(memory);
  int* b = reinterpret_cast<int*>(memory + 2 * blockDim.x);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[threadIdx.x] = i < n ? x[i] : 0;
  b[threadIdx.x] = i;
  __syncthreads();
  const int j = b[blockDim.x - 1 - threadIdx.x];
  if (i < n) y[i] = 2 * a[threadIdx.x] + (j < 0 ? 1 : 0);
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 2048, stream>>>(x, y, n);
}
