// What shadow execution follows: for each way of values through a kernel, the kernel, and the same in FP64
// (its name and _exact). Names end with the type of the output; 32 threads, 128 outputs, 4096 inputs between
// 0.5 and 1.5. `shadow_test` compares the two.
// nvcc -arch=sm_90a -ptx followed.cu
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void
constexpr int kOut = 128;
constexpr float kThird = 1.0f / 3;

// A float with an error, and what it should be.
__device__ float inexact(float x) { return x * kThird; }
__device__ double exactly(float x) { return static_cast<double>(x) * static_cast<double>(kThird); }
__device__ __nv_bfloat16 as_bf16(float x) { return __float2bfloat16(inexact(x)); }
__device__ __half as_half(float x) { return __float2half(inexact(x)); }

#define EACH_OUTPUT(i) _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut; i += 32)

// ---- Pairs of halves ----

KERNEL fma_of_pairs_f16(const float* in, __half* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32) {
    __half2 sum = __floats2half2_rn(0.0f, 0.0f);
    for (int k = 0; k < 8; ++k)
      sum = __hfma2(__floats2half2_rn(in[k * kOut + 2 * i], in[k * kOut + 2 * i + 1]),
                    __float2half2_rn(kThird), sum);
    reinterpret_cast<__half2*>(out)[i] = sum;
  }
}
KERNEL fma_of_pairs_f16_exact(const float* in, double* out) {
  const double third = static_cast<double>(kThird);
  EACH_OUTPUT(i) {
    double sum = 0;
    for (int k = 0; k < 8; ++k) sum += static_cast<double>(in[k * kOut + i]) * third;
    out[i] = sum;
  }
}

KERNEL products_of_pairs_bf16(const float* in, __nv_bfloat16* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32) {
    const __nv_bfloat162 a = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
    const __nv_bfloat162 b = __floats2bfloat162_rn(in[kOut + 2 * i], in[kOut + 2 * i + 1]);
    reinterpret_cast<__nv_bfloat162*>(out)[i] = __hsub2(__hmul2(__hadd2(a, b), b), __hneg2(a));
  }
}
KERNEL products_of_pairs_bf16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) {
    const double a = in[i], b = in[kOut + i];
    out[i] = (a + b) * b + a;
  }
}

KERNEL swapped_pairs_f16(const float* in, __half* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32) {
    const __half2 pair = __halves2half2(as_half(in[2 * i]), as_half(in[2 * i + 1]));
    reinterpret_cast<__half2*>(out)[i] = __hneg2(__lowhigh2highlow(pair));
  }
}
KERNEL swapped_pairs_f16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = -exactly(in[i ^ 1]);
}

// ---- Shuffles, votes, selects ----

KERNEL shuffles_f32(const float* in, float* out) {
  const int lane = threadIdx.x;
  const float x = inexact(in[lane]);
  out[lane] = __shfl_xor_sync(~0u, x, 5);
  out[32 + lane] = __shfl_up_sync(~0u, x, 3);
  out[64 + lane] = __shfl_down_sync(~0u, x, 7, 16);
  out[96 + lane] = __shfl_sync(~0u, x, lane / 2);
}
KERNEL shuffles_f32_exact(const float* in, double* out) {
  const int lane = threadIdx.x;
  out[lane] = exactly(in[lane ^ 5]);
  out[32 + lane] = exactly(in[lane < 3 ? lane : lane - 3]);
  out[64 + lane] = exactly(in[lane % 16 + 7 < 16 ? lane + 7 : lane]);
  out[96 + lane] = exactly(in[lane / 2]);
}

KERNEL shuffled_pairs_bf16(const float* in, __nv_bfloat16* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32) {
    __nv_bfloat162 pair = __halves2bfloat162(as_bf16(in[2 * i]), as_bf16(in[2 * i + 1]));
    pair = __shfl_xor_sync(~0u, pair, 1);
    reinterpret_cast<__nv_bfloat162*>(out)[i] = pair;
  }
}
KERNEL shuffled_pairs_bf16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[i ^ 2]);
}

KERNEL votes_and_selects_f32(const float* in, float* out) {
  EACH_OUTPUT(i) {
    const float a = inexact(in[i]), b = inexact(in[kOut + i]);
    const unsigned votes = __ballot_sync(~0u, in[i] > 1.0f);
    const float chosen = votes >> (threadIdx.x ^ 1) & 1 ? a : b;
    out[i] = fmaxf(fminf(chosen, 0.45f), 0.2f) + fabsf(-a);
  }
}
KERNEL votes_and_selects_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) {
    const double a = exactly(in[i]), b = exactly(in[kOut + i]);
    const double chosen = in[i ^ 1] > 1.0f ? a : b;
    out[i] = fmax(fmin(chosen, static_cast<double>(0.45f)), static_cast<double>(0.2f)) + a;
  }
}

// ---- Memory ----

KERNEL local_memory_f32(const float* in, float* out) {
  float own[8];
  for (int k = 0; k < 8; ++k) own[k] = inexact(in[k * 32 + threadIdx.x]);
  for (int k = 0; k < 4; ++k) out[k * 32 + threadIdx.x] = own[(threadIdx.x + k * 3) % 8];
}
KERNEL local_memory_f32_exact(const float* in, double* out) {
  for (int k = 0; k < 4; ++k)
    out[k * 32 + threadIdx.x] = exactly(in[(threadIdx.x + k * 3) % 8 * 32 + threadIdx.x]);
}

__device__ float work[4096];

template <int kBytes>
__device__ void copy_async(void* to, const void* from) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(kBytes) : "memory");
}
KERNEL async_copies_f32(const float* in, float* out) {
  __shared__ alignas(16) float tile[kOut];
  EACH_OUTPUT(i) work[i] = inexact(in[i]);
  __syncwarp();
  copy_async<4>(tile + threadIdx.x, work + threadIdx.x);
  if (threadIdx.x < 16) copy_async<8>(tile + 32 + 2 * threadIdx.x, work + 32 + 2 * threadIdx.x);
  if (threadIdx.x < 16) copy_async<16>(tile + 64 + 4 * threadIdx.x, work + 64 + 4 * threadIdx.x);
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
  __syncwarp();
  EACH_OUTPUT(i) out[i] = tile[kOut - 1 - i];
}
KERNEL async_copies_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[kOut - 1 - i]);
}

KERNEL bulk_copies_f32(const float* in, float* out) {
  __shared__ alignas(16) float tile[kOut];
  __shared__ alignas(8) uint64_t barrier;
  EACH_OUTPUT(i) work[i] = inexact(in[i]);
  const auto word = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(word) : "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(word), "r"(kOut * 4) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(work), "r"(kOut * 4), "r"(word)
        : "memory");
  }
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(word)
        : "memory");
  EACH_OUTPUT(i) out[i] = tile[kOut - 1 - i];
}
KERNEL bulk_copies_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[kOut - 1 - i]);
}

KERNEL vectors_f32(const float* in, float* out) {
  __shared__ float4 tile[32];
  const float4 x = reinterpret_cast<const float4*>(in)[threadIdx.x];
  tile[threadIdx.x ^ 3] = make_float4(inexact(x.w), inexact(x.x), inexact(x.y), inexact(x.z));
  __syncwarp();
  reinterpret_cast<float4*>(out)[threadIdx.x] = tile[threadIdx.x];
}
KERNEL vectors_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[(i / 4 ^ 3) * 4 + (i + 3) % 4]);
}

template <bool kTransposed>
__device__ void load_tiles(uint32_t (&d)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(address)
                 : "memory");
}
KERNEL matrix_loads_bf16(const float* in, __nv_bfloat16* out) {
  __shared__ alignas(16) __nv_bfloat16 tile[32][8];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i / 8][i % 8] = as_bf16(in[i]);
  __syncwarp();
  uint32_t d[4], e[4];
  load_tiles<true>(d, tile[threadIdx.x]);
  load_tiles<false>(e, tile[threadIdx.x % 16]);
  reinterpret_cast<uint32_t*>(out)[threadIdx.x] = d[1];
  reinterpret_cast<uint32_t*>(out)[32 + threadIdx.x] = e[1];
}
KERNEL matrix_loads_bf16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) {
    const int lane = i % 64 / 2, part = i % 2;
    const int across = lane % 4 * 2 + part, down = lane / 4;
    out[i] = exactly(in[i < 64 ? (8 + across) * 8 + down : (8 + down) * 8 + across]);
  }
}

KERNEL matrix_stores_f16(const float* in, __half* out) {
  __shared__ alignas(16) __half tile[16][8];
  uint32_t d[2];
  for (int m = 0; m < 2; ++m) {
    const __half2 pair = __halves2half2(as_half(in[m * 64 + 2 * threadIdx.x]),
                                        as_half(in[m * 64 + 2 * threadIdx.x + 1]));
    d[m] = reinterpret_cast<const uint32_t&>(pair);
  }
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile[threadIdx.x % 16]));
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(d[0]), "r"(d[1])
               : "memory");
  __syncwarp();
  EACH_OUTPUT(i) out[i] = tile[i / 8][i % 8];
}
KERNEL matrix_stores_f16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[i]);
}

// ---- Atomics: eight additions each ----

#define SUMS_EXACT(name)                                              \
  KERNEL name##_exact(const float* in, double* out) {                 \
    EACH_OUTPUT(i) {                                                  \
      double sum = 0;                                                 \
      for (int k = 0; k < 8; ++k) sum += exactly(in[k * kOut + i]);   \
      out[i] = sum;                                                   \
    }                                                                 \
  }

KERNEL global_atomics_f32(const float* in, float* out) {
  EACH_OUTPUT(i) for (int k = 0; k < 8; ++k) atomicAdd(&out[i], inexact(in[k * kOut + i]));
}
SUMS_EXACT(global_atomics_f32)

KERNEL shared_atomics_f32(const float* in, float* out) {
  __shared__ float sums[kOut];
  EACH_OUTPUT(i) sums[i] = 0.0f;
  __syncwarp();
  EACH_OUTPUT(i) for (int k = 0; k < 8; ++k) atomicAdd(&sums[i], inexact(in[k * kOut + i]));
  __syncwarp();
  EACH_OUTPUT(i) out[i] = sums[i];
}
SUMS_EXACT(shared_atomics_f32)

KERNEL global_atomics_f64(const float* in, double* out) {
  EACH_OUTPUT(i) for (int k = 0; k < 8; ++k) atomicAdd(&out[i], static_cast<double>(inexact(in[k * kOut + i])));
}
SUMS_EXACT(global_atomics_f64)

KERNEL atomics_of_pairs_f16(const float* in, __half* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32)
    for (int k = 0; k < 8; ++k)
      atomicAdd(reinterpret_cast<__half2*>(out) + i,
                __halves2half2(as_half(in[k * kOut + 2 * i]), as_half(in[k * kOut + 2 * i + 1])));
}
SUMS_EXACT(atomics_of_pairs_f16)

KERNEL atomics_of_pairs_bf16(const float* in, __nv_bfloat16* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32)
    for (int k = 0; k < 8; ++k)
      atomicAdd(reinterpret_cast<__nv_bfloat162*>(out) + i,
                __halves2bfloat162(as_bf16(in[k * kOut + 2 * i]), as_bf16(in[k * kOut + 2 * i + 1])));
}
SUMS_EXACT(atomics_of_pairs_bf16)

KERNEL shared_atomics_f16(const float* in, __half* out) {
  __shared__ __half sums[kOut];
  EACH_OUTPUT(i) sums[i] = __float2half(0.0f);
  __syncwarp();
  EACH_OUTPUT(i) for (int k = 0; k < 8; ++k) atomicAdd(&sums[i], as_half(in[k * kOut + i]));
  __syncwarp();
  EACH_OUTPUT(i) out[i] = sums[i];
}
SUMS_EXACT(shared_atomics_f16)

KERNEL global_atomics_bf16(const float* in, __nv_bfloat16* out) {
  EACH_OUTPUT(i) for (int k = 0; k < 8; ++k) atomicAdd(&out[i], as_bf16(in[k * kOut + i]));
}
SUMS_EXACT(global_atomics_bf16)

KERNEL swap_loop_f32(const float* in, float* out) {
  EACH_OUTPUT(i) for (int k = 0; k < 8; ++k) {
    auto* word = reinterpret_cast<unsigned*>(out + i);
    for (unsigned old = *word, seen; (seen = atomicCAS(word, old, __float_as_uint(__uint_as_float(old) +
                                                                 inexact(in[k * kOut + i])))) != old;)
      old = seen;
  }
}
SUMS_EXACT(swap_loop_f32)

KERNEL exchanges_f32(const float* in, float* out) {
  EACH_OUTPUT(i) {
    work[i] = inexact(in[i]);
    const float old = atomicExch(&work[i], inexact(in[kOut + i]));
    out[i] = old + 2.0f * work[i];
  }
}
KERNEL exchanges_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[i]) + 2.0 * exactly(in[kOut + i]);
}

// ---- Approximate functions ----

__device__ float approximate_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KERNEL approximations_f32(const float* in, float* out) {
  EACH_OUTPUT(i) {
    const float x = inexact(in[i]);
    float y = 0.0f;
    switch (i % 8) {
      case 0: asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
      case 1: asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
      case 2: y = approximate_tanh(x); break;
      case 3: y = __sinf(x); break;
      case 4: y = __cosf(x); break;
      case 5: asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
      case 6: asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
      default: asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    }
    out[i] = y;
  }
}
KERNEL approximations_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) {
    const double x = exactly(in[i]);
    const double all[] = {exp2(x), log2(x), tanh(x), sin(x), cos(x), 1 / sqrt(x), 1 / x, sqrt(x)};
    out[i] = all[i % 8];
  }
}

KERNEL approximations_of_pairs_bf16(const float* in, __nv_bfloat16* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32) {
    const __nv_bfloat162 x = __halves2bfloat162(as_bf16(in[2 * i]), as_bf16(in[2 * i + 1]));
    reinterpret_cast<__nv_bfloat162*>(out)[i] = h2exp2(x);
  }
}
KERNEL approximations_of_pairs_bf16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exp2(exactly(in[i]));
}

// ---- Conversions and bits ----

KERNEL conversions_f32(const float* in, float* out) {
  EACH_OUTPUT(i) {
    const float x = inexact(in[i]);
    float y = 0.0f;
    switch (i % 6) {
      case 0: y = __half2float(__float2half_rz(x)); break;
      case 1: y = __bfloat162float(__float2bfloat16_rz(x)); break;
      case 2: {
        uint32_t bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
        y = __uint_as_float(bits);
        break;
      }
      case 3: {
        uint16_t two, back_low;
        uint32_t back;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(back) : "h"(two));
        back_low = static_cast<uint16_t>(back);
        y = __half2float(__ushort_as_half(back_low));
        break;
      }
      case 4: {
        uint16_t two;
        uint32_t back;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(x), "f"(0.0f));
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(back) : "h"(two));
        y = __half2float(__ushort_as_half(static_cast<uint16_t>(back >> 16)));
        break;
      }
      default: y = static_cast<float>(__bfloat162float(__float2bfloat16_ru(x))); break;
    }
    out[i] = y;
  }
}
KERNEL conversions_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[i]);
}

KERNEL fp8_pairs_e4m3(const float* in, __nv_fp8_storage_t* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32)
    reinterpret_cast<__nv_fp8x2_storage_t*>(out)[i] = __nv_cvt_float2_to_fp8x2(
        make_float2(inexact(in[2 * i]), inexact(in[2 * i + 1])), __NV_SATFINITE, __NV_E4M3);
}
KERNEL fp8_pairs_e4m3_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[i]);
}

KERNEL upper_halves_bf16(const float* in, uint32_t* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32)
    out[i] = __byte_perm(__float_as_uint(inexact(in[2 * i])), __float_as_uint(inexact(in[2 * i + 1])), 0x7632);
}
KERNEL upper_halves_bf16_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = exactly(in[i]);
}

KERNEL widened_by_bits_f32(const float* in, float* out) {
  _Pragma("unroll 1") for (int i = threadIdx.x; i < kOut / 2; i += 32) {
    const __nv_bfloat162 pair = __halves2bfloat162(as_bf16(in[2 * i]), as_bf16(in[2 * i + 1]));
    const uint32_t bits = reinterpret_cast<const uint32_t&>(pair);
    out[2 * i] = 3.0f * __uint_as_float(bits << 16);
    out[2 * i + 1] = 3.0f * __uint_as_float(bits & 0xffff0000u);
  }
}
KERNEL widened_by_bits_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = 3.0 * exactly(in[i]);
}

KERNEL signs_and_scales_f32(const float* in, float* out) {
  EACH_OUTPUT(i) {
    const uint32_t bits = __float_as_uint(inexact(in[i]));
    out[i] = 1.1f * __uint_as_float((bits + (3u << 23)) ^ 0x80000000u);
  }
}
KERNEL signs_and_scales_f32_exact(const float* in, double* out) {
  EACH_OUTPUT(i) out[i] = -8.0 * static_cast<double>(1.1f) * exactly(in[i]);
}

// ---- Overflow: 1 / inf is right ----

KERNEL sigmoid_f32(const float* in, float* out) {
  EACH_OUTPUT(i) {
    const float x = inexact(in[i]) * (i % 2 ? 300.0f : 6.0f);
    out[i] = 1.0f / (1.0f + __expf(x)) + inexact(in[i]);
  }
}
KERNEL sigmoid_f32_exact(const float* in, double* out) {
  const double log2e = static_cast<double>(1.4426950408889634f);
  EACH_OUTPUT(i) out[i] = 1 / (1 + exp2(exactly(in[i]) * (i % 2 ? 300.0 : 6.0) * log2e)) + exactly(in[i]);
}
