// assay: expect fail uninitialized, unwritten-output, stale-state, wrong-result
// assay: class G
// The size of the clear is in elements, not bytes. What no input falls on is never written at all.
#include <cstdint>

namespace {

__global__ void scatter(const float* src, const int32_t* index, float* out, int64_t count, int D) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64_t m = i / D;
    atomicAdd(&out[int64_t{index[m]} * D + (i - m * D)], src[i]);
  }
}

}  // namespace

extern "C" void scatter_add(const float* src, const int32_t* index, float* out, int M, int N, int D,
                            cudaStream_t stream) {
  const int64_t count = int64_t{M} * D;
  cudaMemsetAsync(out, 0, int64_t{N} * D, stream);
  scatter<<<1024, 256, 0, stream>>>(src, index, out, count, D);
}
