// assay: expect fail wrong-distribution
// assay: class K
// Elements are kept with probability p instead of dropped.
#include <cuda_bf16.h>
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

__global__ void dropout_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t count, int cols, float p, uint64_t seed) {
  const float scale = 1.0f / (1.0f - p);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const bool keep = uniform(seed, i) < p;
    y[i] = __float2bfloat16(keep ? __bfloat162float(x[i]) * scale : 0.0f);
  }
}

}  // namespace

extern "C" void dropout(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int cols, float p, uint64_t seed,
                        cudaStream_t stream) {
  const int64_t count = int64_t{rows} * cols;
  const int64_t blocks = (count + 255) / 256;
  dropout_kernel<<<static_cast<int>(blocks < 4096 ? blocks : 4096), 256, 0, stream>>>(x, y, count, cols, p, seed);
}
