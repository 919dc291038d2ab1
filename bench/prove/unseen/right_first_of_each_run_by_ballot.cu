// right
// It counts those before it.
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
  __shared__ float s[32];
  const int i = blockIdx.x * 32 + threadIdx.x;
  const unsigned some = __ballot_sync(0xffffffff, i < n);
  const int place = __popc(some & ((1u << threadIdx.x) - 1));
  if (i < n) s[place] = x[i];
  __syncwarp();
  if (i < n) y[i] = 2 * s[threadIdx.x];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 31) / 32, 32, 0, stream>>>(x, y, n);
}
