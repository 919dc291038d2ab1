// violates: bounds
// The search ends at a zero, of which there may be none.
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
formula = "y[z] = sum[i](x[i])"
*/
__global__ void k(const float* x, float* y, int n) {
  float sum = 0;
  for (int i = 0;; ++i) {
    const float v = x[i];
    if (v == 12345.0f) break;
    sum += v;
  }
  y[0] = sum;
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 1, 0, stream>>>(x, y, n);
}
