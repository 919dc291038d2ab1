// Many small operations: each launch has an allocation, a fill and a free of its own. For overhead.py.
#include <cstdio>
#include <cstdlib>

__global__ void add(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + y[i];
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 1500, n = argc > 2 ? std::atoi(argv[2]) : 65536;
  float* x = nullptr;
  cudaMalloc(&x, sizeof(float) * n);
  cudaMemset(x, 0, sizeof(float) * n);
  for (int i = 0; i < launches; ++i) {
    float* y = nullptr;
    cudaMalloc(&y, sizeof(float) * n);
    cudaMemsetAsync(y, 0, sizeof(float) * n);
    add<<<(n + 255) / 256, 256>>>(x, y, n);
    cudaFree(y);
  }
  const cudaError_t error = cudaDeviceSynchronize();
  cudaFree(x);
  std::puts(cudaGetErrorString(error));
  return error != cudaSuccess;
}
