// assay: expect pass
// A thread for each row, with thrust's type and a sum in double.
#include <cuda_runtime.h>
#include <thrust/complex.h>

namespace {

using Complex = thrust::complex<float>;

__global__ void gemv_kernel(Complex alpha, const Complex* a, const Complex* x, Complex* y, int M, int K) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M) return;
  double re = 0, im = 0;
  for (int k = 0; k < K; ++k) {
    const Complex z = a[static_cast<size_t>(row) * K + k], w = x[k];
    re += double(z.real()) * w.real() + double(z.imag()) * w.imag();
    im += double(z.real()) * w.imag() - double(z.imag()) * w.real();
  }
  const double p = alpha.real(), q = alpha.imag();
  y[row] = Complex(static_cast<float>(p * re - q * im), static_cast<float>(p * im + q * re));
}

}  // namespace

extern "C" void complex_gemv(float2 alpha, const float2* a, const float2* x, float2* y, int M, int K,
                             cudaStream_t stream) {
  gemv_kernel<<<(M + 127) / 128, 128, 0, stream>>>(Complex(alpha.x, alpha.y), reinterpret_cast<const Complex*>(a),
                                                   reinterpret_cast<const Complex*>(x), reinterpret_cast<Complex*>(y), M, K);
}
