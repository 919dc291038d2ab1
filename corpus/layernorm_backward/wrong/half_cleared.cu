// assay: expect fail uninitialized, wrong-result
// assay: class G
// Only the first half of the shared sums is cleared.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4;

// A warp takes every (grid * 4)-th row; each block adds up its columns in shared memory first.
__global__ void backward(const float* dy, const float* x, const float* gain, const float* mu,
                         const float* rstd, float* dx, float* dgain, float* dbias, int N, int D) {
  extern __shared__ float columns[];  // D gains, then D biases
  for (int i = threadIdx.x; i < D; i += blockDim.x) columns[i] = 0.0f;
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t row = int64_t{blockIdx.x} * kWarps + warp; row < N; row += int64_t{gridDim.x} * kWarps) {
    const float mean = mu[row], scale = rstd[row];
    float sum = 0.0f, dot = 0.0f;
    for (int d = lane; d < D; d += 32) {
      const float unit = (x[row * D + d] - mean) * scale;
      const float up = dy[row * D + d];
      sum += up * gain[d];
      dot += up * gain[d] * unit;
      atomicAdd(&columns[d], up * unit);
      atomicAdd(&columns[D + d], up);
    }
    for (int step = 16; step > 0; step /= 2) {
      sum += __shfl_xor_sync(~0u, sum, step);
      dot += __shfl_xor_sync(~0u, dot, step);
    }
    sum /= D;
    dot /= D;
    for (int d = lane; d < D; d += 32) {
      const float unit = (x[row * D + d] - mean) * scale;
      dx[row * D + d] = (dy[row * D + d] * gain[d] - sum - unit * dot) * scale;
    }
  }
  __syncthreads();
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    atomicAdd(&dgain[d], columns[d]);
    atomicAdd(&dbias[d], columns[D + d]);
  }
}

}  // namespace

extern "C" void layernorm_backward(const float* dy, const float* x, const float* gain, const float* mu,
                                   const float* rstd, float* dx, float* dgain, float* dbias, int N, int D,
                                   cudaStream_t stream) {
  const int blocks = N < 256 ? (N + kWarps - 1) / kWarps : 64;
  cudaMemsetAsync(dgain, 0, D * sizeof(float), stream);
  cudaMemsetAsync(dbias, 0, D * sizeof(float), stream);
  backward<<<blocks, kWarps * 32, 2 * D * sizeof(float), stream>>>(dy, x, gain, mu, rstd, dx, dgain, dbias, N,
                                                                   D);
}
