// right
// The guard of what is written.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "R", "C", "stream"]
[dims]
R = { min = 1, max = 2000 }
C = { min = 1, max = 2000 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
[tensors.y]
dtype = "f32"
shape = ["C", "R"]
role = "out"
[reference]
formula = "y[c, r] = x[r, c]"
*/
__global__ void k(const float* x, float* y, int R, int C) {
  __shared__ float s[16][17];
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r < R && c < C) s[threadIdx.y][threadIdx.x] = x[r * C + c];
  __syncthreads();
  int q = blockIdx.y * 16 + threadIdx.x, p = blockIdx.x * 16 + threadIdx.y;
  if (q < R && p < C) y[p * R + q] = s[threadIdx.x][threadIdx.y];
}
extern "C" void run(const float* x, float* y, int R, int C, cudaStream_t stream) {
  k<<<dim3((C + 15) / 16, (R + 15) / 16), dim3(16, 16), 0, stream>>>(x, y, R, C);
}
