// assay: expect fail biased-rounding, wrong-result, precision-loss
// assay: class C
// Half of the second operand is given to the tensor cores as it is, and cut off.
#include <cstdint>
namespace {
__device__ uint32_t tf32(float x) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
// A warp for each 16 x 8 tile.
__global__ void __launch_bounds__(32) product(const float* g, float* l, int M, int K, float beta) {
  const int lane = threadIdx.x, r = lane / 4, t = lane % 4;
  const int64_t row = int64_t(blockIdx.y) * 16, col = int64_t(blockIdx.x) * 8;
  float d[4] = {};
  for (int k = 0; k < K; k += 8) {
    const float* a = g + (row + r) * K + k + t;
    const float* b = g + (col + r) * K + k + t;
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(tf32(a[0])), "r"(tf32(a[8 * int64_t(K)])), "r"(tf32(a[4])), "r"(tf32(a[8 * int64_t(K) + 4])), "r"(tf32(b[0])), "r"(__float_as_uint(b[4])));
  }
  for (int i = 0; i < 4; ++i) {
    const int64_t at = (row + r + i / 2 * 8) * M + col + 2 * t + i % 2;
    l[at] = beta * l[at] + (1.0f - beta) * d[i];
  }
}
}
extern "C" void gram(const float* g, float* l, int M, int K, float beta, cudaStream_t stream) {
  product<<<dim3(M / 8, M / 16), 32, 0, stream>>>(g, l, M, K, beta);
}
