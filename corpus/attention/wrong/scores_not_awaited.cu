// assay: expect fail data-race, wrong-result
// assay: class I
// The sum's partials overwrite the maximum's while slow warps read them.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

template <typename Op>
__device__ float block_reduce(float v, float* partial, Op op) {
  for (int step = 16; step > 0; step /= 2) v = op(v, __shfl_xor_sync(~0u, v, step));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = partial[0];
  for (int i = 1; i < kThreads / 32; ++i) v = op(v, partial[i]);
  return v;
}

// A block for each query: all its scores in shared memory, a softmax over them, then the values.
__global__ void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                       __nv_bfloat16* o, int S, int D) {
  extern __shared__ float scores[];
  __shared__ float partial[kThreads / 32];
  const int64_t query = blockIdx.x;
  const int64_t head = query / S * S;
  const int keys = static_cast<int>(query - head) + 1;
  const float scale = 1.0f / sqrtf(static_cast<float>(D));
  float top = -INFINITY;
  for (int j = threadIdx.x; j < keys; j += kThreads) {
    float score = 0.0f;
    for (int d = 0; d < D; ++d)
      score += __bfloat162float(q[query * D + d]) * __bfloat162float(k[(head + j) * D + d]);
    scores[j] = score * scale;
    top = fmaxf(top, scores[j]);
  }
  top = block_reduce(top, partial, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0f;
  for (int j = threadIdx.x; j < keys; j += kThreads) {
    scores[j] = expf(scores[j] - top);
    sum += scores[j];
  }
  sum = block_reduce(sum, partial, [](float a, float b) { return a + b; });
  for (int d = threadIdx.x; d < D; d += kThreads) {
    float out = 0.0f;
    for (int j = 0; j < keys; ++j) out += scores[j] * __bfloat162float(v[(head + j) * D + d]);
    o[query * D + d] = __float2bfloat16(out / sum);
  }
}

}  // namespace

extern "C" void attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                          __nv_bfloat16* o, int H, int S, int D, cudaStream_t stream) {
  attend<<<H * S, kThreads, S * sizeof(float), stream>>>(q, k, v, o, S, D);
}
