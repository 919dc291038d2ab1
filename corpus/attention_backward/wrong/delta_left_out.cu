// assay: expect fail wrong-result
// assay: class K
// The softmax's own derivative is left out.
#include <cstdint>

namespace {

// A block of 64 threads for each query adds its part to the keys' and values' gradients by atomics.
__global__ void gradients(const float* q, const float* k, const float* v, const float* dout, const float* lse,
                          const float* delta, float* dq, float* dk, float* dv, int S, int D, float scale) {
  __shared__ float score[64], along[64];
  const int64_t query = blockIdx.x, head = query / S * S;
  const int d = threadIdx.x;
  const float qd = d < D ? q[query * D + d] : 0.0f;
  const float up = d < D ? dout[query * D + d] : 0.0f;
  float sum = 0.0f;
  for (int64_t key = head; key <= query; ++key) {
    score[d] = d < D ? qd * k[key * D + d] : 0.0f;
    along[d] = d < D ? up * v[key * D + d] : 0.0f;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
      if (d < half) {
        score[d] += score[d + half];
        along[d] += along[d + half];
      }
      __syncthreads();
    }
    const float p = expf(score[0] * scale - lse[query]);
    const float ds = p * along[0];
    __syncthreads();
    if (d < D) {
      sum += ds * k[key * D + d];
      atomicAdd(&dk[key * D + d], ds * qd * scale);
      atomicAdd(&dv[key * D + d], p * up);
    }
  }
  if (d < D) dq[query * D + d] = sum * scale;
}

}  // namespace

extern "C" void attention_backward(const float* q, const float* k, const float* v, const float* dout,
                                   const float* lse, const float* delta, float* dq, float* dk, float* dv,
                                   int H, int S, int D, cudaStream_t stream) {
  const size_t bytes = static_cast<size_t>(H) * S * D * sizeof(float);
  cudaMemsetAsync(dk, 0, bytes, stream);
  cudaMemsetAsync(dv, 0, bytes, stream);
  gradients<<<H * S, 64, 0, stream>>>(q, k, v, dout, lse, delta, dq, dk, dv, S, D, 1.0f / sqrtf(D));
}
