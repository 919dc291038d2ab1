// assay: expect fail wrong-result
// assay: class K
// The real part is a sum.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void multiply_kernel(const float2* a, const float2* b, float2* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 p = a[i], q = b[i];
  y[i] = make_float2(p.x * q.x + p.y * q.y, p.x * q.y + p.y * q.x);
}

}  // namespace

extern "C" void complex_multiply(const float* a, const float* b, float* y, int n, cudaStream_t stream) {
  multiply_kernel<<<(n + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const float2*>(a),
                                                       reinterpret_cast<const float2*>(b), reinterpret_cast<float2*>(y), n);
}
