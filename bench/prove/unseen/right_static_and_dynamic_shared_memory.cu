// right
// 48 KB at most.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "R", "C", "stream"]
[dims]
R = { min = 1, max = 1000 }
C = { min = 1, max = 4096 }
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
extern __shared__ float d[];
__global__ void k(const float* x, float* y, int C) {
  __shared__ float s[8192];
  x += size_t(blockIdx.x) * C;
  y += size_t(blockIdx.x) * C;
  for (int c = threadIdx.x; c < C; c += 64) d[c] = s[c] = x[c];
  __syncthreads();
  for (int c = threadIdx.x; c < C; c += 64) y[c] = d[C - 1 - c] * 0 + 2 * s[c];
}
extern "C" void run(const float* x, float* y, int R, int C, cudaStream_t stream) {
  k<<<R, 64, 4 * C, stream>>>(x, y, C);
}
