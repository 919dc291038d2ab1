// right
// It is read up to where the next begins.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "off", "y", "S", "T", "stream"]
[dims]
S = { min = 1, max = 10000 }
T = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["T"]
[tensors.off]
dtype = "i32"
shape = ["S + 1"]
values = "offsets(T)"
[tensors.y]
dtype = "f32"
shape = ["S"]
role = "out"
[reference]
formula = "y[s] = sum[t in off[s]..off[s + 1]](x[t])"
*/
__global__ void k(const float* x, const int* off, float* y, int S) {
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= S) return;
  float sum = 0;
  for (int t = off[s]; t < off[s + 1]; ++t) sum += x[t];
  y[s] = sum;
}
extern "C" void run(const float* x, const int* off, float* y, int S, int T, cudaStream_t stream) {
  k<<<(S + 255) / 256, 256, 0, stream>>>(x, off, y, S);
}
