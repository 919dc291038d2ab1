// Runs one workload's twin through OpenCL: PoCL, or Oclgrind when started by it.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "workloads.h"

namespace {

void check(cl_int status, const char* what) {
  if (status == CL_SUCCESS) return;
  std::fprintf(stderr, "%s: OpenCL error %d\n", what, status);
  std::exit(1);
}

cl_device_id first_device() {
  cl_platform_id platform;
  cl_device_id device;
  check(clGetPlatformIDs(1, &platform, nullptr), "no OpenCL platform");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "no OpenCL device");
  return device;
}

cl_program build(cl_context context, cl_device_id device) {
  std::ifstream file(BENCH_KERNELS);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const char* source = text.c_str();
  cl_int status;
  cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &status);
  check(status, "program");
  if (clBuildProgram(program, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) {
    char log[8192] = "";
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, nullptr);
    std::fprintf(stderr, "%s\n", log);
    std::exit(1);
  }
  return program;
}

cl_mem upload(cl_context context, bench::Bytes& bytes) {
  cl_int status;
  cl_mem buffer =
      clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes.size(), bytes.data(), &status);
  check(status, "buffer");
  return buffer;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Request request = bench::parse(argc, argv);
  if (request.workload->name == "matmul_mma") {  // the twin is the tiled product
    const bench::Launch tiled = bench::product_launch(request.n, request.k);
    std::copy(std::begin(tiled.grid), std::end(tiled.grid), request.launch.grid);
    std::copy(std::begin(tiled.block), std::end(tiled.block), request.launch.block);
  }
  cl_device_id device = first_device();
  cl_int status;
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
  check(status, "context");
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  check(status, "queue");
  cl_kernel kernel = clCreateKernel(build(context, device), request.workload->name.data(), &status);
  check(status, "kernel");

  cl_mem buffers[] = {upload(context, request.a), upload(context, request.b), upload(context, request.out)};
  for (cl_uint i = 0; i < 3; ++i) check(clSetKernelArg(kernel, i, sizeof(cl_mem), &buffers[i]), "argument");
  check(clSetKernelArg(kernel, 3, sizeof(int), &request.n), "argument");
  check(clSetKernelArg(kernel, 4, sizeof(int), &request.k), "argument");

  const bench::Launch& l = request.launch;
  const size_t local[] = {l.block[0], l.block[1]};
  const size_t global[] = {size_t(l.grid[0]) * l.block[0], size_t(l.grid[1]) * l.block[1]};
  const bench::Bytes zero(request.out.size());
  double best = 1e30;
  for (int i = 0; i <= request.repeats; ++i) {  // the first run compiles and warms up
    check(clEnqueueWriteBuffer(queue, buffers[2], CL_TRUE, 0, zero.size(), zero.data(), 0, nullptr, nullptr),
          "clear");
    const auto began = std::chrono::steady_clock::now();
    check(clEnqueueNDRangeKernel(queue, kernel, 2, nullptr, global, local, 0, nullptr, nullptr), "launch");
    check(clFinish(queue), "finish");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (i > 0 || request.repeats == 0) best = std::fmin(best, took.count());
  }
  check(clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, request.out.size(), request.out.data(), 0, nullptr,
                            nullptr),
        "read");
  return bench::report(request, best);
}
