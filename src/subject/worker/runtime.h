// The CUDA runtime API, as much of it as the worker needs, found in whichever libcudart.so.13 the
// loader finds. No CUDA headers are needed to build the worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/hooks.h"

namespace assay::worker {

inline constexpr int kMultiprocessorCount = 16;  // cudaDevAttrMultiProcessorCount

using Stream = void*;
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
enum CopyKind { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };

struct Runtime {
  int (*cudaGetDeviceCount)(int*);
  int (*cudaFree)(void*);
  int (*cudaMalloc)(void**, size_t);
  int (*cudaMallocManaged)(void**, size_t, unsigned);
  int (*cudaMemcpy)(void*, const void*, size_t, int);
  int (*cudaMemcpyAsync)(void*, const void*, size_t, int, Stream);
  int (*cudaMemset)(void*, int, size_t);
  int (*cudaMemsetAsync)(void*, int, size_t, Stream);
  int (*cudaStreamCreateWithFlags)(Stream*, unsigned);
  int (*cudaStreamSynchronize)(Stream);
  int (*cudaDeviceSynchronize)();
  int (*cudaGetLastError)();
  const char* (*cudaGetErrorName)(int);
  const char* (*cudaGetErrorString)(int);
  int (*cudaLaunchHostFunc)(Stream, void (*)(void*), void*);
  int (*cudaLaunchKernel)(const void*, Dim3, Dim3, void**, size_t, Stream);
  int (*cudaLibraryLoadData)(void**, const void*, void*, void**, unsigned, void*, void**, unsigned);
  int (*cudaLibraryGetKernel)(void**, void*, const char*);
  int (*cudaFuncSetAttribute)(const void*, int, int);
  int (*cudaDeviceGetAttribute)(int*, int, int);
  int (*cudaStreamBeginCapture)(Stream, int);
  int (*cudaStreamEndCapture)(Stream, void**);
  int (*cudaGraphInstantiate)(void**, void*, unsigned long long);
  int (*cudaGraphLaunch)(void*, Stream);
  int (*cudaGraphExecDestroy)(void*);
  int (*cudaGraphDestroy)(void*);
  // Of the virtual device only (protocol/hooks.h); null elsewhere.
#define ASSAY_HOOK_POINTER(name) decltype(&::name) name;  // NOLINT(bugprone-macro-parentheses)
  ASSAY_HOOKS(ASSAY_HOOK_POINTER)
#undef ASSAY_HOOK_POINTER
};

// An empty string, or what is missing. `real`: of a real GPU, or of what stands in for it: no hooks.
std::string load(Runtime& runtime, bool real);

}  // namespace assay::worker
