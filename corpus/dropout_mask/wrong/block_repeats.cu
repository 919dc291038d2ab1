// assay: expect fail wrong-distribution
// assay: class K
// The random number depends on the thread, not on the block.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

// A random number for each element: splitmix64 of the seed and the index.
__device__ uint32_t random_bits(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
}

__device__ float uniform(uint64_t seed, uint64_t i) {
  return static_cast<float>(random_bits(seed, i) >> 8) * 0x1p-24f;
}

__global__ void dropout_kernel(const float* x, float* y, uint8_t* mask, int n, float p, uint64_t seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const bool keep = uniform(seed, threadIdx.x) >= p;
  mask[i] = keep;
  y[i] = keep ? x[i] / (1.0f - p) : 0.0f;
}

}  // namespace

extern "C" void dropout(const float* x, float* y, uint8_t* mask, int n, float p, uint64_t seed, cudaStream_t stream) {
  dropout_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, mask, n, p, seed);
}
