// assay: expect fail barrier-divergence
// assay: class I
// Lanes beyond the end of a short row return before the reduction of the warp.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

#include <cstdint>
namespace cg = cooperative_groups;
__global__ void rows_by_warp(const float* val, const int* col, const int* off, const float* x, float* y,
                             int R) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int r = blockIdx.x * 4 + warp.meta_group_rank();
  if (r >= R) return;
  const int begin = off[r], end = off[r + 1];
  if (begin != end && begin + (int)warp.thread_rank() >= end) return;
  float sum = 0.0f;
  for (int j = begin + warp.thread_rank(); j < end; j += 32) sum = fmaf(val[j], x[col[j]], sum);
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) y[r] = sum;
}
extern "C" void spmv(const float* val, const int* col, const int* off, const float* x, float* y, int R,
                     cudaStream_t stream) {
  rows_by_warp<<<(R + 3) / 4, 128, 0, stream>>>(val, col, off, x, y, R);
}
