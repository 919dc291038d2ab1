// assay: expect fail wrong-result, nonfinite
// assay: class C
// The codes are read as e5m2.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace {

// Four codes at a time: D is a multiple of four.
__global__ void dequantize(const __nv_fp8_storage_t* q, const float* scale, __nv_bfloat16* y, int64_t quads,
                           int D) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const uchar4 codes = reinterpret_cast<const uchar4*>(q)[i];
  const float s = scale[i * 4 / D];
  const unsigned char each[4] = {codes.x, codes.y, codes.z, codes.w};
  for (int j = 0; j < 4; ++j) {
    const __half_raw h = __nv_cvt_fp8_to_halfraw(each[j], __NV_E5M2);
    y[i * 4 + j] = __float2bfloat16(__half2float(__half(h)) * s);
  }
}

}  // namespace

extern "C" void dequantize_fp8(const __nv_fp8_storage_t* q, const float* scale, __nv_bfloat16* y, int N,
                               int D, cudaStream_t stream) {
  const int64_t quads = int64_t{N} * D / 4;
  dequantize<<<(quads + 127) / 128, 128, 0, stream>>>(q, scale, y, quads, D);
}
