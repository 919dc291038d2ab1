// assay: expect fail wrong-result, precision-loss
// assay: class K
// The variance is divided by the number of pixels, not of elements of the group.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ float block_sum(float value, float* partial) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  return sum;
}

__global__ void group_norm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias,
                                  __nv_bfloat16* y, int pixels, int channels, int groups, float eps) {
  __shared__ float partial[kThreads / 32];
  const int image = blockIdx.x / groups, group = blockIdx.x % groups, per_group = channels / groups;
  const int64_t first = int64_t{image} * pixels * channels + group * per_group;
  const int count = pixels * per_group;
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads)
    sum += __bfloat162float(x[first + int64_t{i / per_group} * channels + i % per_group]);
  const float mean = block_sum(sum, partial) / count;
  float squares = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const float d = __bfloat162float(x[first + int64_t{i / per_group} * channels + i % per_group]) - mean;
    squares += d * d;
  }
  const float scale = rsqrtf(block_sum(squares, partial) / pixels + eps);
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const int channel = group * per_group + i % per_group;
    const int64_t at = first + int64_t{i / per_group} * channels + i % per_group;
    float value = (__bfloat162float(x[at]) - mean) * scale;
    if (weight) value *= __bfloat162float(weight[channel]);
    if (bias) value += __bfloat162float(bias[channel]);
    y[at] = __float2bfloat16(value);
  }
}

}  // namespace

extern "C" void group_norm(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias,
                           __nv_bfloat16* y, int N, int pixels, int C, int G, float eps, cudaStream_t stream) {
  group_norm_kernel<<<N * G, kThreads, 0, stream>>>(x, weight, bias, y, pixels, C, G, eps);
}
