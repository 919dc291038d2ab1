// assay: expect fail stale-state, wrong-result
// assay: class F
// The step is counted inside, so a call's result depends on how many came before.
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
  const float square = r.beta2 * v[i] + (1.0f - r.beta2) * grad * grad;
  const float update = mean * r.unbias1 / (sqrtf(square * r.unbias2) + r.eps);
  m[i] = mean;
  v[i] = square;
  p[i] = p[i] * (1.0f - r.lr * r.decay) - r.lr * update;
}

}  // namespace

static int steps = 0;

extern "C" void adamw(float* p, float* m, float* v, const float* g, int64_t n, float lr, float beta1,
                      float beta2, float eps, float decay, int step, cudaStream_t stream) {
  step = ++steps;
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
