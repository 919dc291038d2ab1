// assay: expect fail wrong-distribution
// assay: class K
// The same mask in every step.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ uint64_t scrambled(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ float uniform(uint64_t seed, uint32_t step, uint64_t i) {
  const uint64_t bits = scrambled(scrambled(seed + 1) + i * 0x9e3779b97f4a7c15ull + 0 * step);
  return static_cast<float>(static_cast<uint32_t>(bits >> 40)) * 0x1p-24f;
}

__global__ void dropout_kernel(const float* x, float* y, int n, float p, uint64_t seed, uint32_t step) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float kept = 1.0f - p;
  y[i] = uniform(seed, step, i) < kept ? x[i] / kept : 0.0f;
}

}  // namespace

extern "C" void dropout(const float* x, float* y, int n, float p, uint64_t seed, unsigned step, cudaStream_t stream) {
  dropout_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, p, seed, step);
}
