#include "subject/worker/runtime.h"

#include <dlfcn.h>

namespace assay::worker {

std::string load(Runtime& runtime) {
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
#undef ASSAY_FIND
  find(runtime.assay_set_seed, "assay_set_seed", false);
  find(runtime.assay_advance_clock, "assay_advance_clock", false);
  find(runtime.assay_undefine, "assay_undefine", false);
  find(runtime.assay_label, "assay_label", false);
  find(runtime.assay_report_precision, "assay_report_precision", false);
  find(runtime.assay_range_protect, "assay_range_protect", false);
  find(runtime.assay_range_forget, "assay_range_forget", false);
  find(runtime.assay_report_host, "assay_report_host", false);
  find(runtime.assay_call_ended, "assay_call_ended", false);
  find(runtime.assay_calls_ended, "assay_calls_ended", false);
  return missing;
}

}  // namespace assay::worker
