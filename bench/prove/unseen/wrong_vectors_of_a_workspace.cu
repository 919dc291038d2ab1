// violates: alignment
// The second part of the workspace begins behind n floats.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "4 * (n + 3) + 16 * n"
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
__global__ void k(const float* x, float* y, float4* part, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  part[i] = make_float4(x[i], x[i], 0, 0);
  const float4 v = part[i];
  y[i] = v.x + v.y;
}
extern "C" void run(const float* x, float* y, int n, float* w, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, reinterpret_cast<float4*>(w + n), n);
}
