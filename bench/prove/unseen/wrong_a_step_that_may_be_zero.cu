// violates: barrier
// The step is 0 where n is below 256.
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
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[64];
  float v = 0;
  int step = n / 256;
  for (int i = threadIdx.x; i < n; i += step) v += x[i];
  s[threadIdx.x] = v;
  __syncthreads();
  float z = s[63 - threadIdx.x];
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 0 * z;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, y, n);
}
