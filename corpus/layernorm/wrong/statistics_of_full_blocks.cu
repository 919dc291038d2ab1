// assay: expect fail unwritten-output
// assay: class E
// The statistics of the last N % 4 rows are not written.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

struct Moments {
  float mean, squares, count;
};

__device__ Moments merge(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (count == 0.0f) return a;
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share, count};
}

// Eight elements at a time: D is a multiple of eight and rows are 16-byte aligned.
__global__ void layernorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* gain, const __nv_bfloat16* bias,
                                 __nv_bfloat16* y, float* mu, float* rstd, int N, int D, float eps) {
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.y;
  if (row >= N) return;
  const int lane = threadIdx.x;
  Moments m = {0.0f, 0.0f, 0.0f};
  float sum = 0.0f;  // a running mean would turn an infinity into NaN
  for (int at = lane * 8; at < D; at += 256) {
    const uint4 raw = *reinterpret_cast<const uint4*>(x + row * D + at);
    const __nv_bfloat16* v = reinterpret_cast<const __nv_bfloat16*>(&raw);
    for (int i = 0; i < 8; ++i) {
      const float value = __bfloat162float(v[i]);
      sum += value;
      m.count += 1.0f;
      const float delta = value - m.mean;
      m.mean += delta / m.count;
      m.squares += delta * (value - m.mean);
    }
  }
  for (int step = 16; step > 0; step /= 2) {
    const Moments other = {__shfl_xor_sync(~0u, m.mean, step), __shfl_xor_sync(~0u, m.squares, step),
                           __shfl_xor_sync(~0u, m.count, step)};
    m = lane & step ? merge(other, m) : merge(m, other);
    sum += __shfl_xor_sync(~0u, sum, step);
  }
  const float scale = rsqrtf(m.squares / D + eps);
  for (int d = lane; d < D; d += 32) {
    const float unit = (__bfloat162float(x[row * D + d]) - m.mean) * scale;
    y[row * D + d] = __float2bfloat16(unit * __bfloat162float(gain[d]) + __bfloat162float(bias[d]));
  }
  if (lane == 0 && int64_t{blockIdx.x} * 4 + 4 <= N) {
    mu[row] = sum / D;
    rstd[row] = scale;
  }
}

}  // namespace

extern "C" void layernorm(const __nv_bfloat16* x, const __nv_bfloat16* gain, const __nv_bfloat16* bias,
                          __nv_bfloat16* y, float* mu, float* rstd, int N, int D, float eps,
                          cudaStream_t stream) {
  layernorm_kernel<<<(N + 3) / 4, dim3(32, 4), 0, stream>>>(x, gain, bias, y, mu, rstd, N, D, eps);
}
