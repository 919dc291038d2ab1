// assay: expect fail data-race
// assay: class I
// The second sum of a block writes its slots while the first is still read.
#include <cstdint>
namespace {
constexpr int kBlocks = 128;
struct Work {
  unsigned ticket;
  float trust;
  float pad[14];
  float parts[2][kBlocks];
};
__device__ float update(float m, float v, float p, float eps, float wd) { return m / (sqrtf(v) + eps) + wd * p; }

__device__ float block_sum(float x) {
  __shared__ float warps[8];
  for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0.0f;
  for (int w = 0; w < 8; ++w) x += warps[w];
  return x;
}

__global__ void __launch_bounds__(256) moments(const float* p, float* m, float* v, const float* g, int n, float b1, float b2, float eps, float wd, Work* work) {
  float pp = 0.0f, uu = 0.0f;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    const float mi = b1 * m[i] + (1.0f - b1) * g[i];
    const float vi = b2 * v[i] + (1.0f - b2) * g[i] * g[i];
    m[i] = mi;
    v[i] = vi;
    const float u = update(mi, vi, p[i], eps, wd);
    pp += p[i] * p[i];
    uu += u * u;
  }
  pp = block_sum(pp);
  uu = block_sum(uu);
  __shared__ bool last;
  if (threadIdx.x == 0) {
    work->parts[0][blockIdx.x] = pp;
    work->parts[1][blockIdx.x] = uu;
    __threadfence();
    last = atomicAdd(&work->ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  pp = threadIdx.x < gridDim.x ? __ldcg(&work->parts[0][threadIdx.x]) : 0.0f;
  uu = threadIdx.x < gridDim.x ? __ldcg(&work->parts[1][threadIdx.x]) : 0.0f;
  pp = sqrtf(block_sum(pp));
  uu = sqrtf(block_sum(uu));
  if (threadIdx.x == 0) work->trust = pp != 0.0f && uu != 0.0f ? pp / uu : 1.0f;
}
__global__ void apply(float* p, const float* m, const float* v, int n, float lr, float eps, float wd, const Work* work) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) p[i] -= lr * work->trust * update(m[i], v[i], p[i], eps, wd);
}
}
extern "C" void lamb(float* p, float* m, float* v, const float* g, int n, float lr, float b1, float b2, float eps, float wd,
                     void* workspace, cudaStream_t stream) {
  Work* work = static_cast<Work*>(workspace);
  cudaMemsetAsync(&work->ticket, 0, sizeof(unsigned), stream);
  const int blocks = n < 256 * kBlocks ? (n + 255) / 256 : kBlocks;
  moments<<<blocks, 256, 0, stream>>>(p, m, v, g, n, b1, b2, eps, wd, work);
  apply<<<(n + 255) / 256, 256, 0, stream>>>(p, m, v, n, lr, eps, wd, work);
}
