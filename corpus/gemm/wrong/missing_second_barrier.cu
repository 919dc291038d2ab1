// assay: expect fail data-race, wrong-result
// assay: class I
// The next tile is loaded while slow warps still use this one.
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
    tile_a[y][x] = m < M && from + x < K ? a[int64_t{m} * K + from + x] : 0.0f;
    tile_b[y][x] = n < N && from + y < K ? b[int64_t{from + y} * N + n] : 0.0f;
    __syncthreads();
    const int depth = min(kTile, K - from);
    for (int k = 0; k < depth; ++k) sum += tile_a[y][k] * tile_b[k][x];
  }
  if (m < M && n < N) c[int64_t{m} * N + n] = sum;
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* c, int M, int N, int K, cudaStream_t stream) {
  const dim3 tiles((N + kTile - 1) / kTile, (M + kTile - 1) / kTile);
  product<<<tiles, dim3(kTile, kTile), 0, stream>>>(a, b, c, M, N, K);
}
