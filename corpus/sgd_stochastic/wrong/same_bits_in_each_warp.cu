// assay: expect fail wrong-distribution
// assay: class K
// Every warp uses the same random numbers.
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
  const uint32_t sum = __float_as_uint(x) + (bits >> 16);
  return __float2bfloat16_rz(__uint_as_float(sum & 0xffff0000u));
}

__global__ void sgd_kernel(__nv_bfloat16* w, const float* g, int n, float lr, float decay, uint64_t seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float old = __bfloat162float(w[i]);
  w[i] = round_stochastically(old - lr * (g[i] + decay * old), random_bits(seed, i % 32));
}

}  // namespace

extern "C" void sgd(__nv_bfloat16* w, const float* g, int n, float lr, float decay, uint64_t seed, cudaStream_t stream) {
  sgd_kernel<<<(n + 255) / 256, 256, 0, stream>>>(w, g, n, lr, decay, seed);
}
