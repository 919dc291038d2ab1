// assay: expect fail nonfinite
// assay: class H
// The tail multiplies the last element by zero, which does not remove an infinity.
#include <cstdint>

namespace {

constexpr int kTile = 16;

__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int n = blockIdx.x * kTile + x, m = blockIdx.y * kTile + y;
  float sum = 0.0f;
  for (int from = 0; from < K; from += kTile) {
    tile_a[y][x] = a[int64_t{min(m, M - 1)} * K + min(from + x, K - 1)] * (from + x < K ? 1.0f : 0.0f);
    tile_b[y][x] = n < N ? b[int64_t{min(from + y, K - 1)} * N + n] : 0.0f;
    __syncthreads();
    const int depth = kTile;
    for (int k = 0; k < depth; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  if (m < M && n < N) c[int64_t{m} * N + n] = sum;
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* c, int M, int N, int K, cudaStream_t stream) {
  const dim3 tiles((N + kTile - 1) / kTile, (M + kTile - 1) / kTile);
  product<<<tiles, dim3(kTile, kTile), 0, stream>>>(a, b, c, M, N, K);
}
