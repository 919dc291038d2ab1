// assay: expect fail out-of-bounds, uninitialized, wrong-result
// assay: class E
// The columns are not checked on the way out.
#include <cstdint>

namespace {

__global__ void transpose_kernel(const float* x, float* y, int R, int C) {
  __shared__ float tile[32][33];
  const int tiles_across = (C + 31) / 32;
  const int top = blockIdx.x / tiles_across * 32, left = blockIdx.x % tiles_across * 32;
  for (int i = threadIdx.y; i < 32; i += 8) {
    const int r = top + i, c = left + threadIdx.x;
    if (r < R && c < C) tile[i][threadIdx.x] = x[int64_t{r} * C + c];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) {
    const int c = left + i, r = top + threadIdx.x;
    if (r < R) y[int64_t{c} * R + r] = tile[threadIdx.x][i];
  }
}

}  // namespace

extern "C" void transpose(const float* x, float* y, int R, int C, cudaStream_t stream) {
  const int64_t tiles = int64_t{(R + 31) / 32} * ((C + 31) / 32);
  transpose_kernel<<<tiles, dim3(32, 8), 0, stream>>>(x, y, R, C);
}
