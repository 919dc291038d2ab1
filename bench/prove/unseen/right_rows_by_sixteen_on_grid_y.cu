// right
// 65,535 blocks at most.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "R", "C", "stream"]
[dims]
R = { min = 1, max = 1048560 }
C = { min = 1, max = 8 }
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
  int r = blockIdx.y * 16 + threadIdx.y;
  if (r < R && threadIdx.x < C) y[r * C + threadIdx.x] = 2 * x[r * C + threadIdx.x];
}
extern "C" void run(const float* x, float* y, int R, int C, cudaStream_t stream) {
  k<<<dim3(1, (R + 15) / 16), dim3(8, 16), 0, stream>>>(x, y, R, C);
}
