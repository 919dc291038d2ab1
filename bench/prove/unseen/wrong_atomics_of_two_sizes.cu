// violates: race
// One of 64 bits and one of 32.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000 }
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
  __shared__ unsigned long long s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(&s, 1ull);
  else atomicAdd(reinterpret_cast<unsigned*>(&s), 2u);
  __syncthreads();
  int i = threadIdx.x;
  for (; i < n; i += 64) y[i] = 2 * x[i] + 0 * float(s);
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 64, 0, stream>>>(x, y, n);
}
