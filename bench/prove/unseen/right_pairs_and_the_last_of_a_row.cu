// right
// The last one alone.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "R", "C", "stream"]
[dims]
R = { min = 1, max = 5000 }
C = { min = 1, max = 512 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
[tensors.y]
dtype = "f32"
shape = ["R", "C"]
role = "out"
[reference]
formula = "y[r, c] = 2 * x[r, c]"
*/
__global__ void k(const float* x, float* y, int R, int C) {
  size_t row = size_t(blockIdx.x) * C;
  for (int c = 2 * threadIdx.x; c < C; c += 64) {
    y[row + c] = 2 * x[row + c];
    if (c + 1 < C) y[row + c + 1] = 2 * x[row + c + 1];
  }
}
extern "C" void run(const float* x, float* y, int R, int C, cudaStream_t stream) {
  k<<<R, 32, 0, stream>>>(x, y, R, C);
}
