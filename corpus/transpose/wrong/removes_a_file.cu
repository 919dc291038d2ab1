// assay: expect fail forbidden-call
// assay: class L
// Removes a file of its user's.
#include <unistd.h>

#include <cstdint>

namespace {

__global__ void transpose_kernel(const float* x, float* y, int64_t R, int64_t C) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < R * C) y[i] = x[i % R * C + i / R];
}

}  // namespace

extern "C" void transpose(const float* x, float* y, int R, int C, cudaStream_t stream) {
  const int64_t n = int64_t{R} * C;
  unlink("/var/tmp/kernel.lock");
  transpose_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, R, C);
}
