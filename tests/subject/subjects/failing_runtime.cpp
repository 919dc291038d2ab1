// A libcudart.so.13 for a machine whose GPU cannot be used (failing_driver_test.cpp): compiled once for each fault.
#include <unistd.h>

#include <cstddef>

#ifndef COUNT_FAILS  // cudaError_t of each
#define COUNT_FAILS 0
#endif
#ifndef USE_FAILS
#define USE_FAILS 0
#endif
#ifndef MALLOC_FAILS
#define MALLOC_FAILS 0
#endif

extern "C" {
int cudaGetDeviceCount(int* count) {
  *count = COUNT_FAILS ? 0 : 1;
  return COUNT_FAILS;
}
int cudaFree(void*) {
#ifdef HANGS
  for (;;) pause();
#endif
  return USE_FAILS;
}
// The first is the worker's own, at its start.
int cudaMalloc(void** memory, size_t) {
  static int calls;
  *memory = memory;
  return calls++ == 0 ? 0 : MALLOC_FAILS;
}
const char* cudaGetErrorString(int error) {
  return error == 2     ? "out of memory"
         : error == 35  ? "CUDA driver version is insufficient for CUDA runtime version"
         : error == 46  ? "CUDA-capable device(s) is/are busy or unavailable"
         : error == 100 ? "no CUDA-capable device is detected"
                        : "another error";
}
const char* cudaGetErrorName(int) {
  return "cudaErrorMade";
}
int cudaStreamCreateWithFlags(void** stream, unsigned) {
  *stream = stream;
  return 0;
}
#define NOTHING(name) \
  int name() {        \
    return 0;         \
  }
NOTHING(cudaMallocManaged)
NOTHING(cudaMemcpy)
NOTHING(cudaMemcpyAsync)
NOTHING(cudaMemset)
NOTHING(cudaMemsetAsync)
NOTHING(cudaStreamSynchronize)
NOTHING(cudaStreamIsCapturing)
NOTHING(cudaDeviceSynchronize)
NOTHING(cudaGetLastError)
NOTHING(cudaLaunchHostFunc)
NOTHING(cudaLaunchKernel)
NOTHING(cudaLibraryLoadData)
NOTHING(cudaLibraryGetKernel)
NOTHING(cudaFuncSetAttribute)
NOTHING(cudaDeviceGetAttribute)
NOTHING(cudaStreamBeginCapture)
NOTHING(cudaStreamEndCapture)
NOTHING(cudaGraphInstantiate)
NOTHING(cudaGraphLaunch)
NOTHING(cudaGraphExecDestroy)
NOTHING(cudaGraphDestroy)
}
