// assay: expect pass
// A thread for each element.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void gather_kernel(const float* x, const int* index, float* y, int64_t count, int M, int K) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at < count) y[at] = x[int64_t{index[at % K]} * M + at / K];
}

}  // namespace

extern "C" void gather(const float* x, const int* index, float* y, int M, int N, int K, cudaStream_t stream) {
  const int64_t count = int64_t{M} * K;
  gather_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x, index, y, count, M, K);
}
