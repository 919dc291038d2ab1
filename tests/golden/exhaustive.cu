// Compares the numerics room with the GPU it runs on, far beyond what the stored
// vectors can hold: every f32 argument of every approximate function, and many
// millions of operands for fused multiply-adds and matrix products.
//
//   nvcc -std=c++20 -O2 -arch=sm_90 -Xcompiler -march=x86-64-v3,-ffp-contract=off -Isrc \
//        tests/golden/exhaustive.cu src/numerics/*.cpp -o exhaustive && ./exhaustive
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "numerics/approx.h"
#include "numerics/half.h"
#include "numerics/tensor_core.h"

using namespace assay::numerics;

#define CHECK(call)                                                             \
  do {                                                                          \
    const cudaError_t code = (call);                                            \
    if (code != cudaSuccess) {                                                  \
      std::printf("%s: %s\n", #call, cudaGetErrorString(code));                 \
      std::exit(1);                                                             \
    }                                                                           \
  } while (0)

__host__ __device__ inline uint64_t mix64(uint64_t x) {
  uint64_t z = x + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// ---- unary f32: all 2^32 arguments ------------------------------------------

#define UNARY(name, instruction)                                                \
  __global__ void name(uint32_t first, uint32_t* out) {                         \
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                   \
    float r;                                                                    \
    asm(instruction " %0, %1;" : "=f"(r) : "f"(__uint_as_float(first + i)));    \
    out[i] = __float_as_uint(r);                                                \
  }
UNARY(k_rcp, "rcp.approx.f32")
UNARY(k_rcp_ftz, "rcp.approx.ftz.f32")
UNARY(k_sqrt, "sqrt.approx.f32")
UNARY(k_sqrt_ftz, "sqrt.approx.ftz.f32")
UNARY(k_rsqrt, "rsqrt.approx.f32")
UNARY(k_rsqrt_ftz, "rsqrt.approx.ftz.f32")
UNARY(k_sin, "sin.approx.f32")
UNARY(k_sin_ftz, "sin.approx.ftz.f32")
UNARY(k_cos, "cos.approx.f32")
UNARY(k_cos_ftz, "cos.approx.ftz.f32")
UNARY(k_lg2, "lg2.approx.f32")
UNARY(k_lg2_ftz, "lg2.approx.ftz.f32")
UNARY(k_ex2, "ex2.approx.f32")
UNARY(k_ex2_ftz, "ex2.approx.ftz.f32")
UNARY(k_tanh, "tanh.approx.f32")

constexpr uint32_t kChunk = 1u << 28;

uint64_t parallel_count(uint64_t count, const std::function<uint64_t(uint64_t, uint64_t)>& differences) {
  const unsigned workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<uint64_t> wrong(workers);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < workers; ++t) {
    threads.emplace_back([&, t] { wrong[t] = differences(count * t / workers, count * (t + 1) / workers); });
  }
  for (std::thread& t : threads) t.join();
  uint64_t sum = 0;
  for (const uint64_t w : wrong) sum += w;
  return sum;
}

template <class Function>
uint64_t all_arguments(const char* name, void (*kernel)(uint32_t, uint32_t*), Function&& ours, uint32_t* device,
                       uint32_t* host) {
  uint64_t wrong = 0;
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += kChunk) {
    kernel<<<kChunk / 256, 256>>>(static_cast<uint32_t>(first), device);
    CHECK(cudaMemcpy(host, device, kChunk * 4ull, cudaMemcpyDeviceToHost));
    wrong += parallel_count(kChunk, [&](uint64_t begin, uint64_t end) {
      uint64_t w = 0;
      for (uint64_t i = begin; i < end; ++i) {
        w += bits_of(ours(f32_of(static_cast<uint32_t>(first + i)))) != host[i];
      }
      return w;
    });
  }
  std::printf("%-12s all 2^32 arguments: %llu differ\n", name, static_cast<unsigned long long>(wrong));
  return wrong;
}

// ---- fused multiply-add ------------------------------------------------------

// Exponents near each other, so that terms meet; sometimes any bits at all.
__host__ __device__ inline uint32_t near_f32(uint64_t r) {
  const auto v = static_cast<uint32_t>(mix64(r));
  return (r & 7) == 0 ? v : (r & 7) == 1 ? (v & 0x81ffffffu) : (v & 0x83ffffffu) + 0x3e000000u;
}

#define FMA(name, instruction)                                                            \
  __global__ void name(uint32_t* out) {                                                   \
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                             \
    const uint64_t r = mix64(i) * 4;                                                      \
    float d;                                                                              \
    asm(instruction " %0, %1, %2, %3;"                                                    \
        : "=f"(d)                                                                         \
        : "f"(__uint_as_float(near_f32(r))), "f"(__uint_as_float(near_f32(r + 1))),       \
          "f"(__uint_as_float(near_f32(r + 2))));                                         \
    out[i] = __float_as_uint(d);                                                          \
  }
FMA(k_fma_rn, "fma.rn.f32")
FMA(k_fma_rz, "fma.rz.f32")
FMA(k_fma_rm, "fma.rm.f32")
FMA(k_fma_rp, "fma.rp.f32")
FMA(k_fma_rn_ftz, "fma.rn.ftz.f32")
FMA(k_fma_rz_ftz, "fma.rz.ftz.f32")
FMA(k_fma_rp_ftz, "fma.rp.ftz.f32")

__global__ void k_fma_f16x2(uint32_t* out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t r = mix64(i) * 4;
  asm("fma.rn.f16x2 %0, %1, %2, %3;"
      : "=r"(out[i])
      : "r"((uint32_t)mix64(r)), "r"((uint32_t)mix64(r + 1)), "r"((uint32_t)mix64(r + 2)));
}
__global__ void k_fma_bf16x2(uint32_t* out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t r = mix64(i) * 4;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(out[i])
      : "r"((uint32_t)mix64(r)), "r"((uint32_t)mix64(r + 1)), "r"((uint32_t)mix64(r + 2)));
}

template <class Function>
uint64_t many_triples(const char* name, void (*kernel)(uint32_t*), Function&& ours, uint32_t* device, uint32_t* host) {
  kernel<<<kChunk / 256, 256>>>(device);
  CHECK(cudaMemcpy(host, device, kChunk * 4ull, cudaMemcpyDeviceToHost));
  const uint64_t wrong = parallel_count(kChunk, [&](uint64_t begin, uint64_t end) {
    uint64_t w = 0;
    for (uint64_t i = begin; i < end; ++i) w += ours(mix64(i) * 4) != host[i];
    return w;
  });
  std::printf("%-12s 2^28 triples: %llu differ\n", name, static_cast<unsigned long long>(wrong));
  return wrong;
}

template <Rounding R, bool Ftz>
uint32_t our_fma(uint64_t r) {
  return bits_of(fma_f32<R, Ftz>(f32_of(near_f32(r)), f32_of(near_f32(r + 1)), f32_of(near_f32(r + 2))));
}

// ---- mma.sync m16n8k16 -------------------------------------------------------

// Operand words by warp; every fourth warp has wide exponents.
__host__ __device__ inline uint32_t pair_word(uint64_t warp, uint64_t index, bool brain) {
  const auto v = static_cast<uint32_t>(mix64(warp * 4096 + index));
  if (warp % 4 == 0) return brain ? (v & 0x8fff8fffu) + 0x38003800u : v;  // f16: any bits
  return brain ? (v & 0x83ff83ffu) + 0x3e003e00u : (v & 0x8fff8fffu) + 0x30003000u;
}
__host__ __device__ inline uint32_t accumulator_word(uint64_t warp, uint64_t index) {
  const auto v = static_cast<uint32_t>(mix64(warp * 4096 + 2048 + index));
  return warp % 4 == 0 ? v : (v & 0x87ffffffu) + 0x3c000000u;
}

template <bool Brain>
__global__ void k_mma(float* out) {
  const uint32_t warp = blockIdx.x;
  const uint32_t lane = threadIdx.x;
  uint32_t a[4], b[2];
  float c[4], d[4];
  for (int i = 0; i < 4; ++i) a[i] = pair_word(warp, lane * 4 + i, Brain);
  for (int i = 0; i < 2; ++i) b[i] = pair_word(warp, 512 + lane * 2 + i, Brain);
  for (int i = 0; i < 4; ++i) c[i] = __uint_as_float(accumulator_word(warp, lane * 4 + i));
  if constexpr (Brain) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
  for (int i = 0; i < 4; ++i) out[(warp * 32 + lane) * 4 + i] = d[i];
}

template <bool Brain>
uint64_t many_products(const char* name, uint32_t* device, uint32_t* host) {
  constexpr uint32_t kWarps = 1u << 20;
  k_mma<Brain><<<kWarps, 32>>>(reinterpret_cast<float*>(device));
  CHECK(cudaMemcpy(host, device, kWarps * 512ull, cudaMemcpyDeviceToHost));
  const uint64_t wrong = parallel_count(kWarps, [&](uint64_t begin, uint64_t end) {
    uint64_t w = 0;
    for (uint64_t warp = begin; warp < end; ++warp) {
      uint16_t a[256], b[128];
      float c[128], d[128];
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; ++i) {
          const uint32_t word = pair_word(warp, static_cast<uint64_t>(lane * 4 + i), Brain);
          const int at = (g + 8 * (i & 1)) * 16 + (i >> 1) * 8 + t * 2;
          a[at] = low_half(word);
          a[at + 1] = high_half(word);
          c[(g + 8 * (i >> 1)) * 8 + t * 2 + (i & 1)] = f32_of(accumulator_word(warp, static_cast<uint64_t>(lane * 4 + i)));
        }
        for (int i = 0; i < 2; ++i) {
          const uint32_t word = pair_word(warp, static_cast<uint64_t>(512 + lane * 2 + i), Brain);
          b[g * 16 + i * 8 + t * 2] = low_half(word);
          b[g * 16 + i * 8 + t * 2 + 1] = high_half(word);
        }
      }
      if (Brain) {
        mma_bf16_f32({16, 8, 16}, a, b, c, d);
      } else {
        mma_f16_f32({16, 8, 16}, a, b, c, d);
      }
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          const int at = (lane / 4 + 8 * (i >> 1)) * 8 + lane % 4 * 2 + (i & 1);
          w += bits_of(d[at]) != host[(warp * 32 + static_cast<uint64_t>(lane)) * 4 + static_cast<uint64_t>(i)];
        }
      }
    }
    return w;
  });
  std::printf("%-12s 2^27 elements: %llu differ\n", name, static_cast<unsigned long long>(wrong));
  return wrong;
}

int main() {
  uint32_t* device = nullptr;
  CHECK(cudaMalloc(&device, kChunk * 4ull));
  uint32_t* host = nullptr;
  CHECK(cudaMallocHost(&host, kChunk * 4ull));
  uint64_t wrong = 0;
  wrong += many_products<false>("mma f16", device, host);
  wrong += many_products<true>("mma bf16", device, host);
  wrong += many_triples("fma.rn", k_fma_rn, our_fma<Rounding::NearestEven, false>, device, host);
  wrong += many_triples("fma.rz", k_fma_rz, our_fma<Rounding::TowardZero, false>, device, host);
  wrong += many_triples("fma.rm", k_fma_rm, our_fma<Rounding::Down, false>, device, host);
  wrong += many_triples("fma.rp", k_fma_rp, our_fma<Rounding::Up, false>, device, host);
  wrong += many_triples("fma.rn.ftz", k_fma_rn_ftz, our_fma<Rounding::NearestEven, true>, device, host);
  wrong += many_triples("fma.rz.ftz", k_fma_rz_ftz, our_fma<Rounding::TowardZero, true>, device, host);
  wrong += many_triples("fma.rp.ftz", k_fma_rp_ftz, our_fma<Rounding::Up, true>, device, host);
  const auto word = [](uint64_t r) { return static_cast<uint32_t>(mix64(r)); };
  wrong += many_triples(
      "fma.f16x2", k_fma_f16x2,
      [&](uint64_t r) { return each<fma_half<F16>>(word(r), word(r + 1), word(r + 2)); }, device, host);
  wrong += many_triples(
      "fma.bf16x2", k_fma_bf16x2,
      [&](uint64_t r) { return each<fma_half<BF16>>(word(r), word(r + 1), word(r + 2)); }, device, host);

  struct Unary {
    const char* name;
    void (*kernel)(uint32_t, uint32_t*);
    float (*ours)(float, bool);
    bool ftz;
  };
  const Unary unary[] = {
      {"rcp", k_rcp, rcp_approx, false},       {"rcp.ftz", k_rcp_ftz, rcp_approx, true},
      {"sqrt", k_sqrt, sqrt_approx, false},    {"sqrt.ftz", k_sqrt_ftz, sqrt_approx, true},
      {"rsqrt", k_rsqrt, rsqrt_approx, false}, {"rsqrt.ftz", k_rsqrt_ftz, rsqrt_approx, true},
      {"sin", k_sin, sin_approx, false},       {"sin.ftz", k_sin_ftz, sin_approx, true},
      {"cos", k_cos, cos_approx, false},       {"cos.ftz", k_cos_ftz, cos_approx, true},
      {"lg2", k_lg2, lg2_approx, false},       {"lg2.ftz", k_lg2_ftz, lg2_approx, true},
      {"ex2", k_ex2, ex2_approx, false},       {"ex2.ftz", k_ex2_ftz, ex2_approx, true},
  };
  wrong += all_arguments("tanh", k_tanh, tanh_approx, device, host);
  for (const Unary& u : unary) {
    wrong += all_arguments(u.name, u.kernel, [&](float x) { return u.ours(x, u.ftz); }, device, host);
  }
  return wrong == 0 ? 0 : 1;
}
