// assay: expect fail barrier-divergence, deadlock, timeout, wrong-result
// assay: class I
// Lanes past the end wait elsewhere, but the match still names them.
#include <cstdint>

namespace {

__global__ void clear(int32_t* counts, int B) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < B) counts[b] = 0;
}

// Lanes with the same value let one of them add for all.
__global__ void count_kernel(const int32_t* x, int32_t* counts, int n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {
    const int32_t value = x[i];
    const unsigned same = __match_any_sync(~0u, value);
    const bool leader = threadIdx.x % 32 == __ffs(same) - 1;
    if (value >= 0 && leader) atomicAdd(&counts[value], __popc(same));
  }
  __syncwarp();
}

}  // namespace

extern "C" void histogram(const int32_t* x, int32_t* counts, int n, int B, cudaStream_t stream) {
  clear<<<(B + 255) / 256, 256, 0, stream>>>(counts, B);
  count_kernel<<<(static_cast<int64_t>(n) + 255) / 256, 256, 0, stream>>>(x, counts, n);
}
