// assay: expect fail wrong-result, data-race
// assay: class E
// When n is a multiple of four the last vector is updated twice.
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

__device__ void update(float& p, float& m, float& v, float g, float lr, float beta1, float beta2, float eps,
                       float decay, float root_unbias2) {
  m = beta1 * m + (1.0f - beta1) * g;
  v = beta2 * v + (1.0f - beta2) * g * g;
  p = p * (1.0f - lr * decay) - lr * m / (sqrtf(v) * root_unbias2 + eps);
}

// Four parameters at a time in a grid-stride loop, then the rest. `m` is divided by its
// correction through the learning rate of the step term, which is why decay has its own.
__global__ void adamw_kernel(float* p, float* m, float* v, const float* g, int64_t n, float lr, float beta1,
                             float beta2, float eps, float decay, float unbias1, float root_unbias2) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const float step_lr = lr * unbias1, step_decay = decay / unbias1;
  for (int64_t i = first; i < n / 4; i += stride) {
    float4 p4 = reinterpret_cast<float4*>(p)[i], m4 = reinterpret_cast<float4*>(m)[i];
    float4 v4 = reinterpret_cast<float4*>(v)[i];
    const float4 g4 = reinterpret_cast<const float4*>(g)[i];
    update(p4.x, m4.x, v4.x, g4.x, step_lr, beta1, beta2, eps, step_decay, root_unbias2);
    update(p4.y, m4.y, v4.y, g4.y, step_lr, beta1, beta2, eps, step_decay, root_unbias2);
    update(p4.z, m4.z, v4.z, g4.z, step_lr, beta1, beta2, eps, step_decay, root_unbias2);
    update(p4.w, m4.w, v4.w, g4.w, step_lr, beta1, beta2, eps, step_decay, root_unbias2);
    reinterpret_cast<float4*>(p)[i] = p4;
    reinterpret_cast<float4*>(m)[i] = m4;
    reinterpret_cast<float4*>(v)[i] = v4;
  }
  for (int64_t i = (n - 1) / 4 * 4 + first; i < n; i += stride) {
    update(p[i], m[i], v[i], g[i], step_lr, beta1, beta2, eps, step_decay, root_unbias2);
  }
}

}  // namespace

extern "C" void adamw(float* p, float* m, float* v, const float* g, int64_t n, float lr, float beta1,
                      float beta2, float eps, float decay, int step, cudaStream_t stream) {
  const double unbias1 = 1.0 / (1.0 - std::pow(static_cast<double>(beta1), step));
  const double unbias2 = 1.0 / (1.0 - std::pow(static_cast<double>(beta2), step));
  const int64_t blocks = std::min((n + 1023) / 1024, int64_t{1024});
  adamw_kernel<<<blocks, 256, 0, stream>>>(p, m, v, g, n, lr, beta1, beta2, eps, decay,
                                           static_cast<float>(unbias1),
                                           static_cast<float>(std::sqrt(unbias2)));
}
