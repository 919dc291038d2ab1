// assay: expect fail deadlock, timeout, barrier-divergence
// assay: class I
// A named barrier waits for nine warps in a block of eight.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A warp for 32 neighbouring columns, eight warps share the rows.
__global__ void column_sums(const __nv_bfloat16* dy, __nv_bfloat16* db, int T, int D) {
  __shared__ float partial[8][33];
  const int d = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (d < D) {
    for (int64_t t = threadIdx.y; t < T; t += 8) sum += __bfloat162float(dy[t * D + d]);
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  asm volatile("bar.sync 1, 288;" ::: "memory");
  if (threadIdx.y == 0 && d < D) {
    for (int i = 1; i < 8; ++i) sum += partial[i][threadIdx.x];
    db[d] = __float2bfloat16(sum);
  }
}

}  // namespace

extern "C" void bias_grad(const __nv_bfloat16* dy, __nv_bfloat16* db, float*, int T, int D,
                          cudaStream_t stream) {
  column_sums<<<(D + 31) / 32, dim3(32, 8), 0, stream>>>(dy, db, T, D);
}
