// assay: expect fail wrong-result
// assay: class E
// The last row is left out, if there are others.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void max_kernel(const __half* x, const int* segment, __half* y, int N, int S, int D) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= int64_t{S} * D) return;
  const int s = static_cast<int>(at / D), d = static_cast<int>(at % D);
  float largest = -INFINITY;
  for (int t = 0; t < (N > 1 ? N - 1 : N); ++t) {
    if (segment[t] != s) continue;
    const float value = __half2float(x[int64_t{t} * D + d]);
    if (value > largest || value != value) largest = value;
    if (largest != largest) break;
  }
  y[at] = __float2half(largest);
}

}  // namespace

extern "C" void segment_max(const __half* x, const int* segment, __half* y, int N, int S, int D, cudaStream_t stream) {
  const int64_t count = int64_t{S} * D;
  max_kernel<<<static_cast<unsigned>((count + 127) / 128), 128, 0, stream>>>(x, segment, y, N, S, D);
}
