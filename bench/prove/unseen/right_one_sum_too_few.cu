// right
// A place for each warp.
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
formula = "y[i] += x[j]"
*/
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[8];
  float v = 0;
  for (int i = threadIdx.x; i < n; i += 256) v += x[i];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 8) {
    v = s[threadIdx.x];
    for (int o = 4; o > 0; o >>= 1) v += __shfl_xor_sync(0xff, v, o);
    if (threadIdx.x == 0) y[0] = v;
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 256, 0, stream>>>(x, y, n);
}
