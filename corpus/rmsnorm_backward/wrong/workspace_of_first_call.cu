// assay: expect fail stale-state, out-of-bounds, concurrent-launch, wrong-result
// assay: class F
// A workspace as large as the first call needed is kept for all.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A warp for each row: dx, and the row's scale for the second kernel.
__global__ void rows(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* w,
                     __nv_bfloat16* dx, float* scales, int N, int D, float eps) {
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  if (row >= N) return;
  const int lane = threadIdx.x % 32;
  dy += row * D;
  x += row * D;
  dx += row * D;
  float squares = 0.0f, dot = 0.0f;
  for (int d = lane; d < D; d += 32) {
    const float v = __bfloat162float(x[d]);
    squares += v * v;
    dot += __bfloat162float(dy[d]) * __bfloat162float(w[d]) * v;
  }
  for (int step = 16; step > 0; step /= 2) {
    squares += __shfl_xor_sync(~0u, squares, step);
    dot += __shfl_xor_sync(~0u, dot, step);
  }
  const float scale = rsqrtf(squares / D + eps);
  const float along = scale * scale * (dot / D);
  if (lane == 0) scales[row] = scale;
  for (int d = lane; d < D; d += 32) {
    dx[d] = __float2bfloat16(
        scale * (__bfloat162float(dy[d]) * __bfloat162float(w[d]) - __bfloat162float(x[d]) * along));
  }
}

// 32 columns a block, eight threads for each.
__global__ void columns(const __nv_bfloat16* dy, const __nv_bfloat16* x, const float* scales, float* dw,
                        int N, int D) {
  __shared__ float partial[8][32];
  const int d = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (d < D) {
    for (int64_t n = threadIdx.y; n < N; n += 8) {
      sum += __bfloat162float(dy[n * D + d]) * __bfloat162float(x[n * D + d]) * scales[n];
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && d < D) {
    for (int i = 1; i < 8; ++i) sum += partial[i][threadIdx.x];
    dw[d] = sum;
  }
}

}  // namespace

extern "C" void rmsnorm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* w,
                                 __nv_bfloat16* dx, float* dw, float* workspace, int N, int D, float eps,
                                 cudaStream_t stream) {
  static float* own = nullptr;
  if (own == nullptr) cudaMalloc(&own, N * sizeof(float));
  workspace = own;
  rows<<<(N + 3) / 4, 128, 0, stream>>>(dy, x, w, dx, workspace, N, D, eps);
  columns<<<(D + 31) / 32, dim3(32, 8), 0, stream>>>(dy, x, workspace, dw, N, D);
}
