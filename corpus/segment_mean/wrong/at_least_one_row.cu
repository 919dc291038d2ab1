// assay: expect fail wrong-result, out-of-bounds
// assay: class E
// Every segment is taken to have a row.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void mean_kernel(const float* x, const int* offset, float* y, int D) {
  const int s = blockIdx.x, first = offset[s], last = offset[s + 1];
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float sum = 0;
    for (int t = first; t < max(last, first + 1); ++t) sum += x[int64_t{t} * D + d];
    y[int64_t{s} * D + d] = sum / static_cast<float>(max(last - first, 1));
  }
}

}  // namespace

extern "C" void segment_mean(const float* x, const int* offset, float* y, int S, int D, cudaStream_t stream) {
  mean_kernel<<<S, 128, 0, stream>>>(x, offset, y, D);
}
