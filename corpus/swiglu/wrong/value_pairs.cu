// assay: expect fail misaligned, launch-failure
// assay: class E
// With an odd H the value's half of the row does not begin at an even element.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__device__ float silu(float x) {
  if (x >= 0.0f) return x / (1.0f + expf(-x));
  const float e = expf(x);
  return x * (e / (1.0f + e));
}

// A thread for each pair of elements; an odd H leaves one over in every row.
__global__ void swiglu_kernel(const __nv_bfloat16* h, __nv_bfloat16* y, int64_t pairs, int per_row, int H) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const int64_t row = i / per_row;
  const int first = static_cast<int>(i - row * per_row) * 2;
  for (int j = first; j < first + 2 && j < H; ++j) {
    const float gate = __bfloat162float(h[row * 2 * H + j]);
    const __nv_bfloat16* values = h + row * 2 * H + H + first;
    const float2 both = first + 1 < H ? __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(values))
                                      : make_float2(__bfloat162float(values[0]), 0.0f);
    const float value = j == first ? both.x : both.y;
    y[row * H + j] = __float2bfloat16(silu(gate) * value);
  }
}

}  // namespace

extern "C" void swiglu(const __nv_bfloat16* h, __nv_bfloat16* y, int T, int H, cudaStream_t stream) {
  const int per_row = (H + 1) / 2;
  const int64_t pairs = int64_t{T} * per_row;
  swiglu_kernel<<<(pairs + 127) / 128, 128, 0, stream>>>(h, y, pairs, per_row, H);
}
