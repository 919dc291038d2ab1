// assay: expect fail wrong-result
// assay: class B
// The squares are multiplied out, and cancel about a large mean.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kCodes = 32, kRows = 8;  // of a block

// A distance and its index as one number: distances are not negative, so that their bits are in order.
__device__ unsigned long long packed(float distance, unsigned index) {
  return static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | index;
}

__global__ void start_kernel(unsigned long long* best, int N) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n < N) best[n] = ~0ull;
}

__global__ void nearest_kernel(const float* x, const float* codes, unsigned long long* best, int N, int K, int D) {
  const int n = blockIdx.y * kRows + threadIdx.y, k = blockIdx.x * kCodes + threadIdx.x;
  if (n >= N || k >= K) return;
  const float *a = x + int64_t{n} * D, *b = codes + int64_t{k} * D;
  float product = 0, squares = 0;
  for (int d = 0; d < D; ++d) {
    product += a[d] * b[d];
    squares += a[d] * a[d] + b[d] * b[d];
  }
  const float distance = fmaxf(squares - 2 * product, 0);
  atomicMin(best + n, packed(distance, k));
}

__global__ void unpack_kernel(const unsigned long long* best, int* index, int N) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n < N) index[n] = static_cast<int>(best[n] & 0xffffffffu);
}

}  // namespace

extern "C" void nearest(const float* x, const float* codes, int* index, void* workspace, int N, int K, int D,
                        cudaStream_t stream) {
  auto* best = static_cast<unsigned long long*>(workspace);
  start_kernel<<<(N + 255) / 256, 256, 0, stream>>>(best, N);
  nearest_kernel<<<dim3((K + kCodes - 1) / kCodes, (N + kRows - 1) / kRows), dim3(kCodes, kRows), 0, stream>>>(
      x, codes, best, N, K, D);
  unpack_kernel<<<(N + 255) / 256, 256, 0, stream>>>(best, index, N);
}
