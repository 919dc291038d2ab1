// assay: expect fail precision-loss, biased-rounding, wrong-result
// assay: class C
// Sums of eight products are cut, not rounded, as tensor cores do (mma, wmma, wgmma; cute and cutlass wrap them). This kernel uses none: words
// in a comment do not make its budget wider.
#include <cstdint>

namespace {

constexpr int kGroup = 8;

__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= int64_t{M} * N) return;
  const int64_t m = i / N, n = i % N;
  float sum = 0.0f;
  for (int64_t k = 0; k < K; k += kGroup) {
    double group = sum;
    for (int64_t j = k; j < k + kGroup && j < K; ++j) group += double{a[m * K + j]} * b[j * N + n];
    sum = __double2float_rz(group);
  }
  c[i] = sum;
}

}  // namespace

extern "C" void gemm(const float* a, const float* b, float* c, int M, int N, int K, cudaStream_t stream) {
  const int64_t count = int64_t{M} * N;
  product<<<(count + 127) / 128, 128, 0, stream>>>(a, b, c, M, N, K);
}
