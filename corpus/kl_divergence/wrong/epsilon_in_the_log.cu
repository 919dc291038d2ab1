// assay: expect fail precision-loss, wrong-result
// assay: class B
// An epsilon in the logarithm, against zeros that are left out anyway, drowns small probabilities.
#include <cstdint>

__global__ void kernel(const float* __restrict__ p, const float* __restrict__ q, float* __restrict__ y,
                       int V) {
  __shared__ float part[8];
  const float* pr = p + (size_t)blockIdx.x * V;
  const float* qr = q + (size_t)blockIdx.x * V;
  float s = 0.f;
  for (int v = threadIdx.x; v < V; v += blockDim.x) {
    float a = pr[v];
    if (!(a <= 0.f)) s += a * (logf(a + 1e-8f) - qr[v]);
  }
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) s += part[w];
    y[blockIdx.x] = s;
  }
}
extern "C" void kl_div(const float* p, const float* q, float* y, int R, int V, cudaStream_t stream) {
  kernel<<<R, 256, 0, stream>>>(p, q, y, V);
}
