// assay: expect fail wrong-distribution
// assay: class K
// Logits are multiplied by the temperature.
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

__global__ void sample_kernel(const float* logits, int* token, int B, int V, float temperature, uint64_t seed) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= B) return;
  logits += int64_t{b} * V;
  float largest = logits[0];
  for (int v = 1; v < V; ++v) largest = fmaxf(largest, logits[v]);
  double total = 0;
  for (int v = 0; v < V; ++v) total += expf((logits[v] - largest) * temperature);
  const double wanted = uniform(seed, b) * total;
  double passed = 0;
  int chosen = 0;
  for (int v = 0; v < V; ++v) {
    const float weight = expf((logits[v] - largest) * temperature);
    if (weight > 0.0f) chosen = v;
    passed += weight;
    if (passed > wanted) break;
  }
  token[b] = chosen;
}

}  // namespace

extern "C" void sample_tokens(const float* logits, int* token, int B, int V, float temperature, uint64_t seed,
                              cudaStream_t stream) {
  sample_kernel<<<(B + 127) / 128, 128, 0, stream>>>(logits, token, B, V, temperature, seed);
}
