// violates: race
// Two draws to a place.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 64, max = 64 }
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
  __shared__ int count;
  __shared__ float s[64];
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  int a = atomicAdd(&count, 2);
  if (a < 63) { s[a / 4] = a; }
  __syncthreads();
  y[threadIdx.x] = 2 * x[threadIdx.x] + 0 * s[threadIdx.x / 2];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 64, 0, stream>>>(x, y);
}
