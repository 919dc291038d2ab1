// assay: expect fail wrong-distribution
// assay: class C
// Half is added instead of a random number: rounding to nearest.
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

__device__ __nv_bfloat16 round_stochastically(float x, uint32_t bits) {
  if (!isfinite(x)) return __float2bfloat16(x);
  const uint32_t sum = __float_as_uint(x) + 0x8000u + 0u * bits;
  return __float2bfloat16_rz(__uint_as_float(sum & 0xffff0000u));
}

__global__ void round_kernel(const float* x, __nv_bfloat16* y, int n, uint64_t seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = round_stochastically(x[i], random_bits(seed, i));
}

}  // namespace

extern "C" void round_bf16(const float* x, __nv_bfloat16* y, int n, uint64_t seed, cudaStream_t stream) {
  round_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, seed);
}
