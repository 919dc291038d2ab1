// assay: expect fail low-precision-accumulation, wrong-result
// assay: class A
// Half of the values' gradient is summed in bf16.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// One warp works on a (query, key) pair at a time; lane l holds elements l and l + 32 of a row.
struct Row {
  float a, b;
};

__device__ Row load(const float* rows, int64_t row, int D) {
  const int lane = threadIdx.x;
  return {lane < D ? rows[row * D + lane] : 0.0f, lane + 32 < D ? rows[row * D + lane + 32] : 0.0f};
}

__device__ void store(float* rows, int64_t row, int D, Row v, float scale) {
  const int lane = threadIdx.x;
  if (lane < D) rows[row * D + lane] = v.a * scale;
  if (lane + 32 < D) rows[row * D + lane + 32] = v.b * scale;
}

__device__ float dot(Row x, Row y) {
  float sum = x.a * y.a + x.b * y.b;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}

__device__ void add(Row& to, float factor, Row v, int D) {
  if (threadIdx.x < D) to.a += factor * v.a;
  if (threadIdx.x + 32 < D) to.b += factor * v.b;
}

__global__ void query_gradients(const float* q, const float* k, const float* v, const float* dout,
                                const float* lse, const float* delta, float* dq, int S, int D, float scale) {
  const int64_t query = blockIdx.x, head = query / S * S;
  const Row qi = load(q, query, D), up = load(dout, query, D);
  Row sum = {0.0f, 0.0f};
  for (int64_t key = head; key <= query; ++key) {
    const Row kj = load(k, key, D);
    const float p = expf(dot(qi, kj) * scale - lse[query]);
    const float ds = p * (dot(up, load(v, key, D)) - delta[query]);
    add(sum, ds, kj, D);
  }
  store(dq, query, D, sum, scale);
}

__global__ void key_gradients(const float* q, const float* k, const float* v, const float* dout,
                              const float* lse, const float* delta, float* dk, float* dv, int S, int D,
                              float scale) {
  const int64_t key = blockIdx.x, end = (key / S + 1) * S;
  const Row kj = load(k, key, D), vj = load(v, key, D);
  Row keys = {0.0f, 0.0f}, values = {0.0f, 0.0f};
  for (int64_t query = key; query < end; ++query) {
    const Row qi = load(q, query, D), up = load(dout, query, D);
    const float p = expf(dot(qi, kj) * scale - lse[query]);
    const float ds = p * (dot(up, vj) - delta[query]);
    add(values, p, up, D);
    values.a = __bfloat162float(__float2bfloat16(values.a));
    add(keys, ds, qi, D);
  }
  store(dk, key, D, keys, scale);
  store(dv, key, D, values, 1.0f);
}

}  // namespace

extern "C" void attention_backward(const float* q, const float* k, const float* v, const float* dout,
                                   const float* lse, const float* delta, float* dq, float* dk, float* dv,
                                   int H, int S, int D, cudaStream_t stream) {
  const float scale = 1.0f / sqrtf(static_cast<float>(D));
  query_gradients<<<H * S, 32, 0, stream>>>(q, k, v, dout, lse, delta, dq, S, D, scale);
  key_gradients<<<H * S, 32, 0, stream>>>(q, k, v, dout, lse, delta, dk, dv, S, D, scale);
}
