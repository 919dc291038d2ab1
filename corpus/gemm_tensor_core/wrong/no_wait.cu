// assay: expect fail data-race, uninitialized, wrong-result
// assay: class I
// A tile is used before its copy has arrived.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__device__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A warp for each 16 x 16 tile of c. The next tiles of a and b are on their way (cp.async) while
// ldmatrix and mma.sync work on these.
__global__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int N, int K) {
  __shared__ alignas(16) __nv_bfloat16 tile_a[2][16][16], tile_b[2][16][16];
  const int lane = threadIdx.x;
  const int64_t row = int64_t{blockIdx.y} * 16, col = int64_t{blockIdx.x} * 16;
  const int r = lane / 2, half = lane % 2 * 8;  // each lane copies eight elements of each tile
  const auto fetch = [&](int side, int k) {
    copy16(&tile_a[side][r][half], a + (row + r) * K + k + half);
    copy16(&tile_b[side][r][half], b + int64_t{k + r} * N + col + half);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float left[4] = {}, right[4] = {};  // columns 0 to 7, and 8 to 15
  fetch(0, 0);
  for (int k = 0; k < K; k += 16) {
    const int side = k / 16 % 2;
    if (k + 16 < K) {
      fetch(1 - side, k + 16);

    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    uint32_t fa[4], fb[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(shared_address(&tile_a[side][lane % 16][lane / 16 * 8]))
                 : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                 : "r"(shared_address(&tile_b[side][lane % 16][lane / 16 * 8]))
                 : "memory");
    mma(left, fa, fb[0], fb[1]);
    mma(right, fa, fb[2], fb[3]);
    __syncwarp();
  }
  for (int i = 0; i < 4; ++i) {
    const int64_t at = (row + lane / 4 + i / 2 * 8) * N + col + lane % 4 * 2 + i % 2;
    c[at] = __float2bfloat16(left[i]);
    c[at + 8] = __float2bfloat16(right[i]);
  }
}

}  // namespace

extern "C" void gemm_tensor_core(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M,
                                 int N, int K, cudaStream_t stream) {
  product<<<dim3(N / 16, M / 16), 32, 0, stream>>>(a, b, c, N, K);
}
