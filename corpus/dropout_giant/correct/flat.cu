// assay: expect pass
// A thread for each element; draws are numbered with 64 bits.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A random number for each element: splitmix64 of the seed and the index.
__device__ uint32_t random_bits(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
}

__global__ void dropout_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, float p, uint64_t seed) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const bool keep = static_cast<float>(random_bits(seed, i) >> 8) * 0x1p-24f >= p;
  y[i] = __float2bfloat16(keep ? __bfloat162float(x[i]) / (1.0f - p) : 0.0f);
}

}  // namespace

extern "C" void dropout(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, float p, uint64_t seed,
                        cudaStream_t stream) {
  dropout_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, n, p, seed);
}
