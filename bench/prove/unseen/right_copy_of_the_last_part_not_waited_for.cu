// right
// All groups have arrived.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1024, max = 1000000, multiple_of = 1024 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
*/
#include <cuda_pipeline.h>
__global__ void k(const float* x, float* y, int n) {
  __shared__ float4 s[2][64];
  const float4* from = reinterpret_cast<const float4*>(x) + blockIdx.x * 256;
  float4* to = reinterpret_cast<float4*>(y) + blockIdx.x * 256;
  __pipeline_memcpy_async(&s[0][threadIdx.x], from + threadIdx.x, 16);
  __pipeline_commit();
  for (int part = 0; part < 4; ++part) {
    if (part + 1 < 4) __pipeline_memcpy_async(&s[(part + 1) & 1][threadIdx.x], from + 64 * (part + 1) + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = s[part & 1][63 - threadIdx.x];
    v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
    to[64 * part + 63 - threadIdx.x] = v;
    __syncthreads();
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 1024, 64, 0, stream>>>(x, y, n);
}
