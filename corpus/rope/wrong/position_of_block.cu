// assay: expect fail wrong-result
// assay: class F
// The token's place in the batch is used as its position.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// Elements j and j + P of every head are turned by position * base^(-j / P).
__global__ void rope_kernel(const __nv_bfloat16* x, const int32_t* positions, __nv_bfloat16* y, int H, int P,
                            float base) {
  const int64_t t = blockIdx.x;
  for (int i = threadIdx.x; i < H * P; i += blockDim.x) {
    const int head = i / P, j = i % P;
    const double angle = static_cast<int>(t) * pow(static_cast<double>(base), -1.0 * j / P);
    const float c = static_cast<float>(cos(angle)), s = static_cast<float>(sin(angle));
    const int64_t at = (t * H + head) * 2 * P + j;
    const float a = __bfloat162float(x[at]), b = __bfloat162float(x[at + P]);
    y[at] = __float2bfloat16(a * c - b * s);
    y[at + P] = __float2bfloat16(a * s + b * c);
  }
}

}  // namespace

extern "C" void rope(const __nv_bfloat16* x, const int32_t* positions, __nv_bfloat16* y, int T, int H, int P,
                     float base, cudaStream_t stream) {
  rope_kernel<<<T, 128, 0, stream>>>(x, positions, y, H, P, base);
}
