// assay: expect fail wrong-distribution
// assay: class K
// All samples share one draw.
#include <cuda_fp16.h>
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

__global__ void drop_path_kernel(const __half* x, const __half* branch, __half* y, int D, float p, uint64_t seed) {
  const int b = blockIdx.x;
  const bool keep = uniform(seed, 0) >= p;
  const float scale = 1.0f / (1.0f - p);
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    const int64_t i = int64_t{b} * D + d;
    y[i] = __float2half(__half2float(x[i]) + (keep ? __half2float(branch[i]) * scale : 0.0f));
  }
}

}  // namespace

extern "C" void drop_path(const __half* x, const __half* branch, __half* y, int B, int D, float p, uint64_t seed,
                          cudaStream_t stream) {
  drop_path_kernel<<<B, 256, 0, stream>>>(x, branch, y, D, p, seed);
}
