// Tensor-core products that shadow execution follows, in the manner of followed.cu: A (16 x K) from the first
// inputs, B (K x 8, by columns) from those after 2048, both rounded to the type; C starts as an inexact 1/3.
// nvcc -arch=sm_90a -ptx products.cu
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void
constexpr int kB = 2048;
constexpr float kThird = 1.0f / 3;

__device__ float inexact(float x) { return x * kThird; }
__device__ double exactly(float x) { return static_cast<double>(x) * static_cast<double>(kThird); }

// Two, one or four elements of a 32-bit register, at `at` and after it.
struct Bf16 {
  static constexpr int kPerRegister = 2;
  static __device__ uint32_t load(const float* at) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(inexact(at[0]), inexact(at[1]));
    return reinterpret_cast<const uint32_t&>(v);
  }
};
struct F16 {
  static constexpr int kPerRegister = 2;
  static __device__ uint32_t load(const float* at) {
    const __half2 v = __floats2half2_rn(inexact(at[0]), inexact(at[1]));
    return reinterpret_cast<const uint32_t&>(v);
  }
};
struct Tf32 {
  static constexpr int kPerRegister = 1;
  static __device__ uint32_t load(const float* at) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(inexact(at[0])));
    return bits;
  }
};
struct E4m3 {
  static constexpr int kPerRegister = 4;
  static __device__ uint32_t load(const float* at) {
    const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(inexact(at[0]), inexact(at[1])),
                                                  __NV_SATFINITE, __NV_E4M3);
    const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(inexact(at[2]), inexact(at[3])),
                                                   __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
  }
};

__device__ void product_exactly(const float* in, double* out, int k) {
  for (int i = threadIdx.x; i < 128; i += 32) {
    double sum = exactly(in[i]);
    for (int j = 0; j < k; ++j) sum += exactly(in[i / 8 * k + j]) * exactly(in[kB + i % 8 * k + j]);
    out[i] = sum;
  }
}

// m16n8: rows group and group + 8 of A, column group of B.
#define PRODUCT(name, type, depth, shape)                                                                      \
  KERNEL name##_f32(const float* in, float* out) {                                                             \
    constexpr int p = type::kPerRegister, half = depth / 2;                                                    \
    const int group = threadIdx.x / 4, pair = threadIdx.x % 4;                                                 \
    const float *row = in + group * depth + pair * p, *next = row + 8 * depth,                                 \
                *col = in + kB + group * depth + pair * p;                                                     \
    const int at = group * 8 + pair * 2;                                                                       \
    float d0 = inexact(in[at]), d1 = inexact(in[at + 1]), d2 = inexact(in[at + 64]), d3 = inexact(in[at + 65]); \
    asm volatile("mma.sync.aligned." shape                                                                     \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                            \
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)                                                      \
                 : "r"(type::load(row)), "r"(type::load(next)), "r"(type::load(row + half)),                   \
                   "r"(type::load(next + half)), "r"(type::load(col)), "r"(type::load(col + half)));           \
    out[at] = d0, out[at + 1] = d1, out[at + 64] = d2, out[at + 65] = d3;                                      \
  }                                                                                                            \
  KERNEL name##_f32_exact(const float* in, double* out) { product_exactly(in, out, depth); }

PRODUCT(product_bf16_k16, Bf16, 16, "m16n8k16.row.col.f32.bf16.bf16.f32")
PRODUCT(product_f16_k16, F16, 16, "m16n8k16.row.col.f32.f16.f16.f32")
PRODUCT(product_tf32_k8, Tf32, 8, "m16n8k8.row.col.f32.tf32.tf32.f32")
PRODUCT(product_e4m3_k32, E4m3, 32, "m16n8k32.row.col.f32.e4m3.e4m3.f32")

// Half the depth: one register of B.
#define SHORT_PRODUCT(name, type, depth, shape)                                                                \
  KERNEL name##_f32(const float* in, float* out) {                                                             \
    constexpr int p = type::kPerRegister;                                                                      \
    const int group = threadIdx.x / 4, pair = threadIdx.x % 4;                                                 \
    const float *row = in + group * depth + pair * p, *next = row + 8 * depth,                                 \
                *col = in + kB + group * depth + pair * p;                                                     \
    const int at = group * 8 + pair * 2;                                                                       \
    float d0 = inexact(in[at]), d1 = inexact(in[at + 1]), d2 = inexact(in[at + 64]), d3 = inexact(in[at + 65]); \
    asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"              \
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)                                                      \
                 : "r"(type::load(row)), "r"(type::load(next)), "r"(type::load(col)));                         \
    out[at] = d0, out[at + 1] = d1, out[at + 64] = d2, out[at + 65] = d3;                                      \
  }                                                                                                            \
  KERNEL name##_f32_exact(const float* in, double* out) { product_exactly(in, out, depth); }

SHORT_PRODUCT(product_bf16_k8, Bf16, 8, "m16n8k8.row.col.f32.bf16.bf16.f32")
SHORT_PRODUCT(product_f16_k8, F16, 8, "m16n8k8.row.col.f32.f16.f16.f32")
SHORT_PRODUCT(product_tf32_k4, Tf32, 4, "m16n8k4.row.col.f32.tf32.tf32.f32")

KERNEL product_in_halves_f16(const float* in, __half* out) {
  const int group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  const float *row = in + group * 16 + pair, *next = row + 128, *col = in + kB + group * 16 + pair;
  const int at = group * 8 + pair;
  uint32_t d0 = F16::load(in + at), d1 = F16::load(in + at + 64);
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
               : "+r"(d0), "+r"(d1)
               : "r"(F16::load(row)), "r"(F16::load(next)), "r"(F16::load(row + 8)), "r"(F16::load(next + 8)),
                 "r"(F16::load(col)), "r"(F16::load(col + 8)));
  *reinterpret_cast<uint32_t*>(out + at) = d0;
  *reinterpret_cast<uint32_t*>(out + at + 64) = d1;
}
KERNEL product_in_halves_f16_exact(const float* in, double* out) { product_exactly(in, out, 16); }

// The upper half of a 16 x 16 product.
KERNEL wmma_product_f32(const float* in, float* out) {
  using namespace nvcuda;
  __shared__ __nv_bfloat16 a[256], b[256];
  __shared__ float c[256];
  for (int i = threadIdx.x; i < 256; i += 32) {
    a[i] = __float2bfloat16(inexact(in[i]));
    b[i] = __float2bfloat16(inexact(in[kB + i]));
    c[i] = inexact(in[i]);
  }
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 128; i += 32) out[i] = c[i];
}
KERNEL wmma_product_f32_exact(const float* in, double* out) {
  for (int i = threadIdx.x; i < 128; i += 32) {
    double sum = exactly(in[i]);
    for (int j = 0; j < 16; ++j) sum += exactly(in[i / 16 * 16 + j]) * exactly(in[kB + i % 16 * 16 + j]);
    out[i] = sum;
  }
}
