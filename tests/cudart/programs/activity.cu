// What the program does with memory is known byte by byte: tests/cudart/activity_run_test.cpp compares it with what `assay run` says.
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "check.h"

constexpr int kCount = 1000;  // not a multiple of a warp

// Row by row, as most kernels read.
__global__ void rows(const float* from, float* to, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];  // line 13
}

// Every eighth word, and of each of those the first two bytes of the next one.
__global__ void scattered(const float* from, float* to, int count) {
  const int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 1 < count) to[i] = from[i] + reinterpret_cast<const unsigned short*>(from + i + 1)[0];
}

// Each block an array of its own.
__global__ void arrays(float* const* from, float* to) {
  to[threadIdx.x] = from[blockIdx.x][threadIdx.x];
}

// Memory of the host, pinned page by page: one block reads on where the last one has ended.
void pages_of_the_host() {
  constexpr int kPages = 6, kWords = 1024;
  constexpr size_t kBytes = kWords * sizeof(float);
  float *pages[kPages], **from, *to;
  auto* const first = static_cast<float*>(std::aligned_alloc(kBytes, kPages * kBytes));
  std::memset(first, 0, kPages * kBytes);
  for (int i = 0; i < kPages; ++i) {
    pages[i] = first + i * kWords;
    CUDA(cudaHostRegister(pages[i], kBytes, cudaHostRegisterDefault));
  }
  CUDA(cudaMalloc(&from, sizeof pages));
  CUDA(cudaMalloc(&to, kBytes));
  CUDA(cudaMemcpy(from, pages, sizeof pages, cudaMemcpyHostToDevice));
  arrays<<<kPages, kWords>>>(from, to);
  CUDA(cudaDeviceSynchronize());
}

// In stream order: memory that is freed is used again, though the host waits for nothing.
void from_a_pool() {
  for (int i = 0; i < 3; ++i) {
    float *large, *small;
    CUDA(cudaMallocAsync(&large, 12 << 20, 0));
    CUDA(cudaMallocAsync(&small, 4 << 10, 0));
    CUDA(cudaMemsetAsync(small, 0, 4 << 10, 0));
    rows<<<4, 256>>>(small, large, kCount);
    CUDA(cudaFreeAsync(large, 0));
    CUDA(cudaFreeAsync(small, 0));
  }
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "pool") == 0) {
    from_a_pool();
    CUDA(cudaDeviceSynchronize());
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "host") == 0) {
    pages_of_the_host();
    return 0;
  }
  const bool dies = argc > 1 && std::strcmp(argv[1], "dies") == 0;
  float *whole, *half, *strided, *target, *unused;
  for (float** one : {&whole, &half, &strided, &target, &unused})
    CUDA(cudaMalloc(one, kCount * sizeof(float)));
  for (float* one : {whole, half, strided}) CUDA(cudaMemset(one, 0, kCount * sizeof(float)));
  for (int i = 0; i < 5; ++i) {  // what is known to be read is marked no more
    rows<<<4, 256>>>(whole, target, kCount);
    rows<<<2, 256>>>(half, target, kCount / 2);
    scattered<<<1, 128>>>(strided, target, kCount);
  }
  rows<<<1, 32>>>(whole, target, 32);
  CUDA(cudaDeviceSynchronize());
  if (dies) std::raise(SIGKILL);
  for (float* one : {whole, half, strided, unused}) CUDA(cudaFree(one));
  puts("ok");  // `target` is never freed
}
