// assay: expect fail wrong-result
// assay: class K
// Two registers of the left operand are exchanged.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A warp for each 16 x 8 tile of c; the operands of mma.sync straight from memory.
__global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int N, int K) {
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  const int64_t row = int64_t{blockIdx.y} * 16 + group;
  const int64_t col = int64_t{blockIdx.x} * 8;
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(b);
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int k = 0; k < K; k += 16) {
    const uint32_t* low = reinterpret_cast<const uint32_t*>(a + row * K + k + pair);
    const uint32_t* high = reinterpret_cast<const uint32_t*>(a + (row + 8) * K + k + pair);
    const uint16_t* at = bits + int64_t{k + pair} * N + col + group;
    const uint32_t b0 = at[0] | uint32_t{at[N]} << 16;
    const uint32_t b1 = at[8 * int64_t{N}] | uint32_t{at[9 * int64_t{N}]} << 16;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(low[0]), "r"(low[4]), "r"(high[0]), "r"(high[4]), "r"(b0), "r"(b1));
  }
  c[row * N + col + pair] = __float2bfloat16(d[0]);
  c[row * N + col + pair + 1] = __float2bfloat16(d[1]);
  c[(row + 8) * N + col + pair] = __float2bfloat16(d[2]);
  c[(row + 8) * N + col + pair + 1] = __float2bfloat16(d[3]);
}

}  // namespace

extern "C" void gemm_tensor_core(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M,
                                 int N, int K, cudaStream_t stream) {
  product<<<dim3(N / 8, M / 16), 32, 0, stream>>>(a, b, c, N, K);
}
