// assay: expect fail out-of-bounds, uninitialized, wrong-result
// assay: class E
// The last word is made of what comes after the mask.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void pack_kernel(const uint8_t* mask, uint32_t* words, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t word = __ballot_sync(0xffffffffu, mask[i] != 0);
  if (threadIdx.x % 32 == 0 && i < n) words[i / 32] = word;
}

}  // namespace

extern "C" void pack_bits(const uint8_t* mask, uint32_t* words, int n, cudaStream_t stream) {
  pack_kernel<<<(n + 255) / 256, 256, 0, stream>>>(mask, words, n);
}
