// violates: bounds
// Column plus row times R.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "R", "C", "stream"]
[dims]
R = { min = 1, max = 3000 }
C = { min = 1, max = 3000 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
strides = ["1", "R"]
[tensors.y]
dtype = "f32"
shape = ["R", "C"]
role = "out"
[reference]
formula = "y[r, c] = 2 * x[r, c]"
*/
__global__ void k(const float* x, float* y, int R, int C) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < R * C) y[i] = 2 * x[i % C + i / C * R];
}
extern "C" void run(const float* x, float* y, int R, int C, cudaStream_t stream) {
  k<<<(R * C + 127) / 128, 128, 0, stream>>>(x, y, R, C);
}
