// assay: expect fail precision-loss, low-precision-accumulation, wrong-result
// assay: class A
// In bf16 a beta2 of 0.999 is 1, or 0.996.
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>

namespace {

struct Rates {
  float lr, beta1, beta2, eps, decay;
  float unbias1, unbias2;  // 1 / (1 - beta^step)
};

__global__ void adamw_kernel(float* p, float* m, float* v, const float* g, int64_t n, Rates r) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float grad = g[i];
  const float mean = r.beta1 * m[i] + (1.0f - r.beta1) * grad;
  const float beta2 = __bfloat162float(__float2bfloat16(r.beta2));
  const float square = beta2 * v[i] + (1.0f - beta2) * grad * grad;
  const float update = mean * r.unbias1 / (sqrtf(square * r.unbias2) + r.eps);
  m[i] = mean;
  v[i] = square;
  p[i] = p[i] * (1.0f - r.lr * r.decay) - r.lr * update;
}

}  // namespace

extern "C" void adamw(float* p, float* m, float* v, const float* g, int64_t n, float lr, float beta1,
                      float beta2, float eps, float decay, int step, cudaStream_t stream) {
  // In double: 1 - beta^step cancels at small steps.
  const Rates rates = {lr,
                       beta1,
                       beta2,
                       eps,
                       decay,
                       static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), step))),
                       static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta2), step)))};
  adamw_kernel<<<(n + 255) / 256, 256, 0, stream>>>(p, m, v, g, n, rates);
}
