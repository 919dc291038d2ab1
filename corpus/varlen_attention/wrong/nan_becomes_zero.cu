// assay: expect fail nonfinite
// assay: class H
// Rows without weight become zero, and so do rows of which the sum is NaN.
#include <cuda_bf16.h>
#include <cstdint>
namespace {

__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr int D = 64;
__device__ uint32_t pack(float lo, float hi) {
  __nv_bfloat162 p = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&p);
}
// One warp per 16 queries, 16 keys a step, online softmax in units of log 2.
__global__ void __launch_bounds__(32) kernel(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                       const int* len, __nv_bfloat16* o, float* lse, int S, int T) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4, b = blockIdx.y;
  const int row0 = blockIdx.x * 16 + g, row1 = row0 + 8;
  const int n = len[b];
  const __nv_bfloat16* kb = k + int64_t(b) * T * D;
  const __nv_bfloat16* vb = v + int64_t(b) * T * D;
  const __nv_bfloat16* qb = q + int64_t(b) * S * D;
  auto pair = [&](const __nv_bfloat16* p, int row, int rows, int col) -> uint32_t {
    return row < rows ? *reinterpret_cast<const uint32_t*>(p + int64_t(row) * D + col) : 0u;
  };
  uint32_t a[4][4];
  for (int c = 0; c < 4; ++c) {
    a[c][0] = pair(qb, row0, S, c * 16 + 2 * t);
    a[c][1] = pair(qb, row1, S, c * 16 + 2 * t);
    a[c][2] = pair(qb, row0, S, c * 16 + 2 * t + 8);
    a[c][3] = pair(qb, row1, S, c * 16 + 2 * t + 8);
  }
  float acc[8][4] = {};
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {0.0f, 0.0f};
  for (int j = 0; j < n; j += 16) {
    float s[2][4] = {};
    for (int h = 0; h < 2; ++h)
      for (int c = 0; c < 4; ++c)
        mma(s[h], a[c], pair(kb, j + h * 8 + g, n, c * 16 + 2 * t), pair(kb, j + h * 8 + g, n, c * 16 + 2 * t + 8));
    float top[2] = {m[0], m[1]};
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 4; ++i) {
        const int key = j + h * 8 + 2 * t + i % 2;
        s[h][i] = key < n ? s[h][i] * 0.125f : -INFINITY;
        top[i / 2] = fmaxf(top[i / 2], s[h][i]);
      }
    float scale[2], base[2];
    for (int r = 0; r < 2; ++r) {
      top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
      base[r] = top[r] == -INFINITY ? 0.0f : top[r];
      scale[r] = expf(m[r] - base[r]);
      m[r] = top[r];
      l[r] *= scale[r];
    }
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 4; ++i) {
        const int key = j + h * 8 + 2 * t + i % 2;
        s[h][i] = key < n ? expf(s[h][i] - base[i / 2]) : 0.0f;
        l[i / 2] += s[h][i];
      }
    const uint32_t p[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
    const uint16_t* bits = reinterpret_cast<const uint16_t*>(vb);
    auto two = [&](int key, int col) -> uint32_t {
      const uint32_t lo = key < n ? bits[int64_t(key) * D + col] : 0;
      const uint32_t hi = key + 1 < n ? bits[int64_t(key + 1) * D + col] : 0;
      return lo | hi << 16;
    };
    for (int c = 0; c < 8; ++c) {
      for (int i = 0; i < 4; ++i) acc[c][i] *= scale[i / 2];
      mma(acc[c], p, two(j + 2 * t, c * 8 + g), two(j + 2 * t + 8, c * 8 + g));
    }
  }
  for (int r = 0; r < 2; ++r) {
    l[r] += __shfl_xor_sync(~0u, l[r], 1);
    l[r] += __shfl_xor_sync(~0u, l[r], 2);
    const int row = r ? row1 : row0;
    if (row >= S) continue;
    for (int c = 0; c < 8; ++c)
      for (int i = 0; i < 2; ++i)
        o[(int64_t(b) * S + row) * D + c * 8 + 2 * t + i] = __float2bfloat16(l[r] > 0.0f ? acc[c][2 * r + i] / l[r] : 0.0f);
    if (t == 0) lse[int64_t(b) * S + row] = n > 0 ? m[r] + logf(l[r]) : -INFINITY;
  }
}
}
extern "C" void attend(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const int* len,
                       __nv_bfloat16* o, float* lse, int B, int S, int T, cudaStream_t stream) {
  kernel<<<dim3((S + 15) / 16, B), 32, 0, stream>>>(q, k, v, len, o, lse, S, T);
}
