// The workloads' kernels. kernels.cl has their twins.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

__global__ void matmul_naive(const float* a, const float* b, float* out, int n, int k) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
  out[row * n + col] = sum;
}

__global__ void matmul_tiled(const float* a, const float* b, float* out, int n, int k) {
  __shared__ float tile_a[16][16];
  __shared__ float tile_b[16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  const int col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  float sum = 0;
  for (int from = 0; from < k; from += 16) {
    tile_a[y][x] = a[row * k + from + x];
    tile_b[y][x] = b[(from + y) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  out[row * n + col] = sum;
}

__global__ void reduction(const float* a, const float*, float* out, int, int k) {
  __shared__ float partial[256];
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[(blockIdx.x * k + i) * 256 + t];
  partial[t] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = partial[0];
}

__global__ void softmax(const float* a, const float*, float* out, int, int k) {
  __shared__ float shared[128];
  const int t = threadIdx.x;
  const float* x = a + size_t(blockIdx.x) * k;
  float* y = out + size_t(blockIdx.x) * k;

  float top = -INFINITY;
  for (int i = t; i < k; i += 128) top = fmaxf(top, x[i]);
  shared[t] = top;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) shared[t] = fmaxf(shared[t], shared[t + half]);
    __syncthreads();
  }
  top = shared[0];
  __syncthreads();

  float sum = 0;
  for (int i = t; i < k; i += 128) sum += expf(x[i] - top);
  shared[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    __syncthreads();
  }
  const float scale = 1.0f / shared[0];
  for (int i = t; i < k; i += 128) y[i] = expf(x[i] - top) * scale;
}

__global__ void transpose(const float* a, const float*, float* out, int n, int) {
  __shared__ float tile[32][33];
  const int x = threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += 8)
    tile[y][x] = a[size_t(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x];
  __syncthreads();
  for (int y = threadIdx.y; y < 32; y += 8)
    out[size_t(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = tile[x][y];
}

__global__ void histogram(const uint32_t* a, const uint32_t*, uint32_t* out, int, int k) {
  __shared__ uint32_t bins[256];
  const int t = threadIdx.x;
  bins[t] = 0;
  __syncthreads();
  for (int i = 0; i < k; ++i) atomicAdd(&bins[a[(blockIdx.x * k + i) * 256 + t] >> 24], 1u);
  __syncthreads();
  atomicAdd(&out[t], bins[t]);
}

// The sum of each channel of an NHWC tensor: n pixels of k channels, a block for each channel. Lanes are k floats apart.
__global__ void channel_sum(const float* a, const float*, float* out, int n, int k) {
  __shared__ float partial[256];
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = t; i < n; i += 256) sum += a[size_t(i) * k + blockIdx.x];
  partial[t] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = partial[0];
}

// Prefix sums of 1,024 elements for each block, in place between two barriers for each step.
__global__ void block_scan(const float* a, const float*, float* out, int, int) {
  __shared__ float sums[1024];
  const int t = threadIdx.x;
  sums[t] = a[size_t(blockIdx.x) * 1024 + t];
  __syncthreads();
  for (int ahead = 1; ahead < 1024; ahead *= 2) {
    const float before = t >= ahead ? sums[t - ahead] : 0.0f;
    __syncthreads();
    sums[t] += before;
    __syncthreads();
  }
  out[size_t(blockIdx.x) * 1024 + t] = sums[t];
}

// bf16 inputs, fp32 sums, on the tensor cores: m16n8k16, operands loaded straight from memory.
__global__ void matmul_mma(const uint16_t* a, const uint16_t* b, float* out, int n, int k) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  const int row = blockIdx.y * 16 + group;
  const int col = (blockIdx.x * 4 + threadIdx.y) * 8;
  const uint32_t* a_low = reinterpret_cast<const uint32_t*>(a + row * k + pair);
  const uint32_t* a_high = reinterpret_cast<const uint32_t*>(a + (row + 8) * k + pair);
  float c[4] = {0, 0, 0, 0};
  for (int from = 0; from < k; from += 16) {
    const uint16_t* b_at = b + (from + pair) * n + col + group;
    const uint32_t b0 = b_at[0] | uint32_t(b_at[n]) << 16;
    const uint32_t b1 = b_at[8 * n] | uint32_t(b_at[9 * n]) << 16;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a_low[from / 2]), "r"(a_high[from / 2]), "r"(a_low[from / 2 + 4]), "r"(a_high[from / 2 + 4]),
          "r"(b0), "r"(b1));
  }
  out[row * n + col + pair] = c[0];
  out[row * n + col + pair + 1] = c[1];
  out[(row + 8) * n + col + pair] = c[2];
  out[(row + 8) * n + col + pair + 1] = c[3];
}
