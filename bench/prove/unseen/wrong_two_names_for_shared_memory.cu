// violates: race
// No barrier between reading the one and writing the other.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 64, max = 640000, multiple_of = 64 }
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
union Both { float f[64]; int i[64]; };
__global__ void k(const float* x, float* y) {
  __shared__ Both both;
  int t = threadIdx.x, at = blockIdx.x * 64 + t;
  both.f[t] = x[at];
  __syncthreads();
  float v = both.f[63 - t];
  both.i[t] = __float_as_int(v);
  __syncthreads();
  y[at] = 2 * __int_as_float(both.i[63 - t]);
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 64, 64, 0, stream>>>(x, y);
}
