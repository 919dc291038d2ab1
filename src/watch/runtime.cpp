#include "watch/runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

namespace assay::watch {

Result<Runtime> Runtime::find() {
  void* library = RTLD_DEFAULT;
  if (!dlsym(RTLD_DEFAULT, "cudaMemcpyAsync")) {
    library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (!library) library = dlopen("libcudart.so.12", RTLD_NOW | RTLD_GLOBAL);
    if (!library) return Error{"the CUDA runtime, libcudart.so.13, is not loaded and was not found"};
  }
  Runtime runtime;
  std::string missing;
  const auto get = [&](auto& function, const char* name) {
    void* found = dlsym(library, name);
    if (!found) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define GET(name) get(runtime.name, #name)
  GET(cudaGetDevice);
  GET(cudaSetDevice);
  GET(cudaMalloc);
  GET(cudaFree);
  GET(cudaMemcpyAsync);
  GET(cudaEventCreateWithFlags);
  GET(cudaEventRecord);
  GET(cudaEventQuery);
  GET(cudaEventSynchronize);
  GET(cudaEventDestroy);
  GET(cudaStreamCreateWithFlags);
  GET(cudaStreamSynchronize);
  GET(cudaStreamDestroy);
  GET(cudaStreamIsCapturing);
  GET(cudaGraphLaunch);
  GET(cudaGetLastError);
#undef GET
  if (!missing.empty()) return Error{fmt::format("the CUDA runtime has no function {}", missing)};
  void* properties = dlsym(library, "cudaGetDeviceProperties_v2");
  if (!properties) properties = dlsym(library, "cudaGetDeviceProperties");
  runtime.cudaGetDeviceProperties = reinterpret_cast<int (*)(void*, int)>(properties);
  runtime.is_virtual = dlsym(library, "assay_configure") != nullptr;
  return runtime;
}

Runtime::Device Runtime::device(int index) const {
  // cudaDeviceProp begins with the name, 256 bytes, and the UUID, 16; it has had at most 1,032 bytes.
  constexpr std::size_t kName = 256, kUuid = 16, kRoom = 8192;
  std::vector<char> properties(kRoom);
  if (!cudaGetDeviceProperties || cudaGetDeviceProperties(properties.data(), index) != 0) return {};
  Device device{std::string(properties.data()), "GPU-"};
  for (std::size_t i = 0; i < kUuid; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) device.uuid += '-';
    device.uuid += fmt::format("{:02x}", static_cast<unsigned char>(properties[kName + i]));
  }
  return device;
}

}  // namespace assay::watch
