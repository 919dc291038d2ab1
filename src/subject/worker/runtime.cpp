#include "subject/worker/runtime.h"

#include <dlfcn.h>

namespace assay::worker {

std::string load(Runtime& runtime, bool real) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return std::string("the CUDA runtime cannot be loaded: ") + dlerror();
  std::string missing;
  const auto find = [&](auto& function, const char* name, bool needed) {
    void* symbol = dlsym(library, name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
    if (!symbol && needed && missing.empty()) missing = std::string("the CUDA runtime has no ") + name;
  };
#define ASSAY_FIND(name) find(runtime.name, #name, true)
  ASSAY_FIND(cudaGetDeviceCount);
  ASSAY_FIND(cudaFree);
  ASSAY_FIND(cudaMalloc);
  ASSAY_FIND(cudaMallocManaged);
  ASSAY_FIND(cudaMemcpy);
  ASSAY_FIND(cudaMemcpyAsync);
  ASSAY_FIND(cudaMemset);
  ASSAY_FIND(cudaMemsetAsync);
  ASSAY_FIND(cudaStreamCreateWithFlags);
  ASSAY_FIND(cudaStreamSynchronize);
  ASSAY_FIND(cudaDeviceSynchronize);
  ASSAY_FIND(cudaGetLastError);
  ASSAY_FIND(cudaGetErrorName);
  ASSAY_FIND(cudaGetErrorString);
  ASSAY_FIND(cudaLaunchHostFunc);
  ASSAY_FIND(cudaLaunchKernel);
  ASSAY_FIND(cudaLibraryLoadData);
  ASSAY_FIND(cudaLibraryGetKernel);
  ASSAY_FIND(cudaFuncSetAttribute);
  ASSAY_FIND(cudaDeviceGetAttribute);
  ASSAY_FIND(cudaStreamBeginCapture);
  ASSAY_FIND(cudaStreamEndCapture);
  ASSAY_FIND(cudaGraphInstantiate);
  ASSAY_FIND(cudaGraphLaunch);
  ASSAY_FIND(cudaGraphExecDestroy);
  ASSAY_FIND(cudaGraphDestroy);
#undef ASSAY_FIND
  if (real) return missing;
#define ASSAY_FIND_HOOK(name) find(runtime.name, #name, false);
  ASSAY_HOOKS(ASSAY_FIND_HOOK)
#undef ASSAY_FIND_HOOK
  return missing;
}

}  // namespace assay::worker
