// Runs one workload through the CUDA runtime, on whichever libcudart.so.13 the loader finds.
#include <chrono>

#include "kernels/kernels.cuh"
#include "workloads.h"

namespace {

struct Entry {
  std::string_view name;
  const void* kernel;
};

const Entry kKernels[] = {
    {"matmul_naive", reinterpret_cast<const void*>(matmul_naive)},
    {"matmul_tiled", reinterpret_cast<const void*>(matmul_tiled)},
    {"reduction", reinterpret_cast<const void*>(reduction)},
    {"softmax", reinterpret_cast<const void*>(softmax)},
    {"transpose", reinterpret_cast<const void*>(transpose)},
    {"histogram", reinterpret_cast<const void*>(histogram)},
    {"channel_sum", reinterpret_cast<const void*>(channel_sum)},
    {"block_scan", reinterpret_cast<const void*>(block_scan)},
    {"matmul_mma", reinterpret_cast<const void*>(matmul_mma)},
};

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
  std::exit(1);
}

void* upload(const bench::Bytes& bytes) {
  void* device = nullptr;
  check(cudaMalloc(&device, bytes.size()));
  check(cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  return device;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Request request = bench::parse(argc, argv);
  const void* kernel = nullptr;
  for (const Entry& entry : kKernels) {
    if (entry.name == request.workload->name) kernel = entry.kernel;
  }
  void* a = upload(request.a);
  void* b = upload(request.b);
  void* out = upload(request.out);
  void* args[] = {&a, &b, &out, &request.n, &request.k};
  const bench::Launch& l = request.launch;

  double best = 1e30;
  for (int i = 0; i <= request.repeats; ++i) {  // the first run warms up
    check(cudaMemset(out, 0, request.out.size()));
    check(cudaDeviceSynchronize());
    const auto began = std::chrono::steady_clock::now();
    check(
        cudaLaunchKernel(kernel, dim3(l.grid[0], l.grid[1]), dim3(l.block[0], l.block[1]), args, 0, nullptr));
    check(cudaDeviceSynchronize());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (i > 0 || request.repeats == 0) best = std::fmin(best, took.count());
  }
  check(cudaMemcpy(request.out.data(), out, request.out.size(), cudaMemcpyDeviceToHost));
  return bench::report(request, best);
}
