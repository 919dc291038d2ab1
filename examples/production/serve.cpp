// A small server: requests of different sizes, one kernel call each. It knows nothing of Assay: it links the library that
// has rmsnorm(), which is the kernel's own or the shim.
//
// usage: serve REQUESTS
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

extern "C" void rmsnorm(const float* x, const float* w, float* y, int N, int D, float eps, cudaStream_t stream);

int main(int argc, char** argv) {
  const int requests = argc > 1 ? std::atoi(argv[1]) : 100;
  constexpr int kD = 200, kMostRows = 16;
  std::vector<float> x(kMostRows * kD), w(kD), y(x.size());
  for (int d = 0; d < kD; ++d) w[d] = 1 + 0.001f * static_cast<float>(d);
  void *dx = nullptr, *dw = nullptr, *dy = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaMalloc(&dx, 4 * x.size()) != cudaSuccess || cudaMalloc(&dw, 4 * w.size()) != cudaSuccess ||
      cudaMalloc(&dy, 4 * y.size()) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) {
    std::fprintf(stderr, "serve: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  cudaMemcpy(dw, w.data(), 4 * w.size(), cudaMemcpyHostToDevice);
  unsigned random = 1;
  double sum = 0;
  for (int request = 0; request < requests; ++request) {
    const int rows = 1 + request % kMostRows;
    for (float& value : x) {
      random = random * 1664525u + 1013904223u;
      value = static_cast<float>(random >> 8) / (1 << 23) - 1;
    }
    cudaMemcpyAsync(dx, x.data(), 4 * x.size(), cudaMemcpyHostToDevice, stream);
    rmsnorm(static_cast<const float*>(dx), static_cast<const float*>(dw), static_cast<float*>(dy), rows, kD, 1e-6f,
            stream);
    cudaMemcpyAsync(y.data(), dy, 4 * y.size(), cudaMemcpyDeviceToHost, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) {
      std::fprintf(stderr, "serve: %s\n", cudaGetErrorString(cudaGetLastError()));
      return 1;
    }
    sum += y[0];
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::printf("served %d requests, checksum %.6g\n", requests, sum);
  return 0;
}
