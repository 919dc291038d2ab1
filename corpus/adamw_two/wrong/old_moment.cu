// assay: expect fail wrong-result
// assay: class K
// The step is made with the moment before the update.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ void step(float* p, float g, float* m, float* v, float lr, float decay) {
  const float old = *m;
  *m = 0.9f * old + 0.1f * g;
  *v = 0.999f * *v + 0.001f * g * g;
  *p -= lr * (old / (sqrtf(*v) + 1e-8f) + (decay > 0.0f ? decay * *p : 0.0f));
}

__global__ void adamw_kernel(float* p, const float* gp, float* mp, float* vp, float* q, const float* gq, float* mq, float* vq,
                             int n, int k, float lr) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = i - n;
  if (i < n)
    step(p + i, gp[i], mp + i, vp + i, lr, 0.01f);
  else if (j < k)
    step(q + j, gq[j], mq + j, vq + j, lr, 0.0f);
}

}  // namespace

extern "C" void adamw(float* p, const float* gp, float* mp, float* vp, float* q, const float* gq, float* mq, float* vq, int n,
                      int k, float lr, cudaStream_t stream) {
  adamw_kernel<<<(n + k + 255) / 256, 256, 0, stream>>>(p, gp, mp, vp, q, gq, mq, vq, n, k, lr);
}
