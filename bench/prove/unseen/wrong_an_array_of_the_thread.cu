// violates: bounds
// One element too far, for one thread.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "idx", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.idx]
dtype = "i32"
shape = ["n"]
values = "index(8)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const float* x, const int* idx, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float r[8];
  for (int j = 0; j < 8; ++j) r[j] = 2 * x[i];
  for (int j = 0; j < 8; ++j) r[(idx[i] + j) % 8] *= 1.0f;
  y[i] = r[idx[i] + (i == 70000)];
}
extern "C" void run(const float* x, const int* idx, float* y, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(x, idx, y, n);
}
