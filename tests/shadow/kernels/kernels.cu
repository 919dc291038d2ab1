// Kernels that the tests of shadow execution follow. kernels.ptx is this, compiled:
//   nvcc -ptx -arch=sm_90 -lineinfo -o kernels.ptx kernels.cu
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

extern "C" __global__ void softmax(const float* x, float* y, int n) {
  __shared__ float part[4];
  const float* row = x + blockIdx.x * n;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) top = fmaxf(top, row[i]);
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top;
  __syncthreads();
  top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 128) sum += expf(row[i] - top);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = part[0] + part[1] + part[2] + part[3];
  for (int i = threadIdx.x; i < n; i += 128) y[blockIdx.x * n + i] = expf(row[i] - top) / sum;
}

extern "C" __global__ void functions(const float* x, float* y, int n) {
  const int i = threadIdx.x;
  const float s = x[i] * 1.37f;  // an error that the functions inherit
  y[0 * n + i] = logf(s);
  y[1 * n + i] = expf(s);
  y[2 * n + i] = tanhf(s);
  y[3 * n + i] = sinf(s);
  y[4 * n + i] = cosf(s);
  y[5 * n + i] = powf(s, 1.7f);
  y[6 * n + i] = sqrtf(s);
  y[7 * n + i] = rsqrtf(s);
  y[8 * n + i] = __expf(s);
  y[9 * n + i] = erff(s);
  y[10 * n + i] = log1pf(s);
  y[11 * n + i] = static_cast<float>(exp(static_cast<double>(s)));
  y[12 * n + i] = fabsf(-s);
  y[13 * n + i] = s / 3.0f;
}

extern "C" __global__ void pairs(const __nv_bfloat162* x, __nv_bfloat16* y, int n) {
  __nv_bfloat162 sum = __floats2bfloat162_rn(0.0f, 0.0f);
  for (int k = 0; k < n; ++k) sum = __hadd2(sum, x[k * 32 + threadIdx.x]);
  y[threadIdx.x * 2] = __low2bfloat16(sum);
  y[threadIdx.x * 2 + 1] = __high2bfloat16(sum);
}

extern "C" __global__ void cut(const float* x, uint16_t* y, int n) {
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += x[k * 32 + threadIdx.x];
  y[threadIdx.x] = static_cast<uint16_t>(__float_as_uint(sum) >> 16);
}

extern "C" __global__ void rounded_twice(const float* x, __nv_bfloat16* y, int n) {
  for (int i = threadIdx.x; i < n; i += 32) {
    const float third = __bfloat162float(__float2bfloat16(x[i] / 3.0f));
    y[i] = __float2bfloat16(third * 1.1f);
  }
}

extern "C" __global__ void rounded_once(const float* x, __nv_bfloat16* y, int n) {
  for (int i = threadIdx.x; i < n; i += 32) y[i] = __float2bfloat16(x[i] * 1.1f);
}

extern "C" __global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k_all) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(b);
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int k = 0; k < k_all; k += 16) {
    const uint32_t* low = reinterpret_cast<const uint32_t*>(a + group * k_all + k + pair);
    const uint32_t* high = reinterpret_cast<const uint32_t*>(a + (group + 8) * k_all + k + pair);
    const uint16_t* at = bits + (k + pair) * 8 + group;
    const uint32_t b0 = at[0] | uint32_t{at[8]} << 16, b1 = at[64] | uint32_t{at[72]} << 16;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(low[0]), "r"(high[0]), "r"(low[4]), "r"(high[4]), "r"(b0), "r"(b1));
  }
  c[group * 8 + pair] = d[0];
  c[group * 8 + pair + 1] = d[1];
  c[(group + 8) * 8 + pair] = d[2];
  c[(group + 8) * 8 + pair + 1] = d[3];
}

extern "C" __global__ void overflow(const float* x, float* y, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += expf(x[i]);
  y[threadIdx.x] = expf(x[threadIdx.x]) / sum;
}

extern "C" __global__ void variance(const float* x, float* y, int n) {
  float sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const float v = x[i * 32 + threadIdx.x];
    sum += v;
    squares += v * v;
  }
  const float mean = sum / n;
  y[threadIdx.x] = squares / n - mean * mean;
}
