// violates: race
// Below 32 nobody meets.
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
  __shared__ float s[128];
  int t = threadIdx.x;
  float v = 0;
  for (int i = t; i < n; i += 128) v += x[i];
  s[t] = v;
  __syncthreads();
  for (int o = 64; o > 0; o >>= 1) {
    if (t < o) s[t] += s[t + o];
    if (o > 32) __syncthreads();
  }
  if (t == 0) y[0] = s[0];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 128, 0, stream>>>(x, y, n);
}
