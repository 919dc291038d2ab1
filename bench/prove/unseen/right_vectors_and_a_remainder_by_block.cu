// right
// A block more where all are full.
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
  int i = blockIdx.x * 64 + threadIdx.x, whole = n / 4;
  if (i < whole) {
    float4 v = reinterpret_cast<const float4*>(x)[i];
    v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
    reinterpret_cast<float4*>(y)[i] = v;
  }
  int rest = 4 * whole + i;
  if (rest < n) y[rest] = 2 * x[rest];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n / 4 + 64) / 64, 64, 0, stream>>>(x, y, n);
}
