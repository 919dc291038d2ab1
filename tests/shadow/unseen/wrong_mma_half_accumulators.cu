/* contract
title = "Matrix product on tensor cores, f16"
[kernel]
entry = "matmul"
args = ["a", "b", "c", "M", "N", "K", "stream"]
[dims]
M = { min = 16, max = 1024, multiple_of = 16 }
N = { min = 8, max = 1024, multiple_of = 8 }
K = { min = 16, max = 4096, multiple_of = 16 }
[tensors.a]
dtype = "f16"
shape = ["M", "K"]
values = "activations"
[tensors.b]
dtype = "f16"
shape = ["N", "K"]
values = "weights"
[tensors.c]
dtype = "f16"
shape = ["M", "N"]
role = "out"
[reference]
formula = "c[m, n] += a[m, k] * b[n, k]"
*/
#include <cuda_fp16.h>

#include <cstdint>

__global__ void kernel(const __half* a, const __half* b, __half* c, int N, int K) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  const int64_t row = int64_t{blockIdx.y} * 16 + group, col = int64_t{blockIdx.x} * 8 + group;
  uint32_t d0 = 0, d1 = 0;
  for (int k = 0; k < K; k += 16) {
    const auto* low = reinterpret_cast<const uint32_t*>(a + row * K + k + pair);
    const auto* high = reinterpret_cast<const uint32_t*>(a + (row + 8) * K + k + pair);
    const auto* at = reinterpret_cast<const uint32_t*>(b + col * K + k + pair);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};" : "+r"(d0), "+r"(d1) : "r"(low[0]), "r"(high[0]), "r"(low[4]), "r"(high[4]), "r"(at[0]), "r"(at[4]));  // loses precision
  }
  *reinterpret_cast<uint32_t*>(c + row * N + blockIdx.x * 8 + pair) = d0;
  *reinterpret_cast<uint32_t*>(c + (row + 8) * N + blockIdx.x * 8 + pair) = d1;
}

extern "C" void matmul(const __half* a, const __half* b, __half* c, int M, int N, int K,
                       cudaStream_t stream) {
  kernel<<<dim3(N / 8, M / 16), 32, 0, stream>>>(a, b, c, N, K);
}
