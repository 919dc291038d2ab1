// assay: expect fail data-race, wrong-result, nondeterministic
// assay: class I
// Whichever token of a slot comes last wins.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void append_kernel(const __nv_bfloat16* k, const int* slot, __nv_bfloat16* cache, int T, int D) {
  const int t = blockIdx.x;
  const int at = slot[t];
  if (at < 0) return;
  for (int d = threadIdx.x; d < D; d += blockDim.x) cache[int64_t{at} * D + d] = k[int64_t{t} * D + d];
}

}  // namespace

extern "C" void append(const __nv_bfloat16* k, const int* slot, __nv_bfloat16* cache, int T, int D, cudaStream_t stream) {
  append_kernel<<<T, 64, 0, stream>>>(k, slot, cache, T, D);
}
