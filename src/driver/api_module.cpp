// cuModule*, cuLibrary*, cuLink*: device code that the program loads by itself.
//
// Modules and libraries are the same here: both are PTX, alone or in a fatbinary, that the runtime loads.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

namespace {

constexpr int kLazyLoading = 2;

// The options of a load or of a linker: only the logs are answered.
class JitLogs {
 public:
  JitLogs(unsigned count, const JitOption* options, void** values)
      : count_(count), options_(options), values_(values) {}

  void write(std::string_view errors) const {
    for (unsigned i = 0; options_ && values_ && i < count_; ++i) {
      if (options_[i] == JitOption::InfoLog) write_log(i, JitOption::InfoLogBytes, "");
      if (options_[i] == JitOption::ErrorLog) write_log(i, JitOption::ErrorLogBytes, errors);
      if (options_[i] == JitOption::WallTime) {
        const float milliseconds = 0;
        std::memcpy(&values_[i], &milliseconds, sizeof milliseconds);
      }
    }
  }

 private:
  // The size of a log is an option of its own, where the number of bytes written is returned.
  void write_log(unsigned log, JitOption size_option, std::string_view text) const {
    for (unsigned i = 0; i < count_; ++i) {
      if (options_[i] != size_option) continue;
      const auto room = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values_[i]));
      auto* to = static_cast<char*>(values_[log]);
      if (!to || room == 0) return;
      const size_t bytes = std::min<size_t>(text.size(), room - 1);
      std::memcpy(to, text.data(), bytes);
      to[bytes] = '\0';
      values_[i] = reinterpret_cast<void*>(bytes < text.size() ? size_t{room} : bytes);
    }
  }

  unsigned count_;
  const JitOption* options_;
  void** values_;
};

// Errors in the code are errors of the load, as with the driver's own compiler.
Status load_now(LibraryHandle** library, const JitLogs& logs) {
  const char* message = "";
  const Status status = assay_load_library(*library, &message);
  logs.write(message ? message : "");
  if (status == Status::Success) return status;
  (void)cudaLibraryUnload(*library);
  *library = nullptr;
  return status;
}

Status load_data(LibraryHandle** library, const void* image, const JitLogs& logs) {
  return in_context([&] {
    if (Status status = cudaLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
        status != Status::Success)
      return status;
    const Status status = load_now(library, logs);
    const bool is_ptx =
        status != Status::InvalidPtx || std::strstr(static_cast<const char*>(image), ".version");
    return is_ptx ? status : Status::InvalidKernelImage;
  });
}

Status load_file(LibraryHandle** library, const char* path, const JitLogs& logs) {
  return in_context([&] {
    if (Status status = cudaLibraryLoadFromFile(library, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
        status != Status::Success)
      return status;
    return load_now(library, logs);
  });
}

const JitLogs kNoLogs{0, nullptr, nullptr};

}  // namespace

// ---- Modules ----

DRIVER_API Status cuModuleLoad(LibraryHandle** module, const char* path) {
  return load_file(module, path, kNoLogs);
}
DRIVER_API Status cuModuleLoadData(LibraryHandle** module, const void* image) {
  return load_data(module, image, kNoLogs);
}
DRIVER_API Status cuModuleLoadDataEx(LibraryHandle** module, const void* image, unsigned count,
                                     JitOption* options, void** values) {
  return load_data(module, image, {count, options, values});
}
DRIVER_API Status cuModuleLoadFatBinary(LibraryHandle** module, const void* image) {
  return load_data(module, image, kNoLogs);
}
FORWARD(cuModuleUnload, (LibraryHandle * module), cudaLibraryUnload(module))
FORWARD_WITHOUT_CONTEXT(cuModuleGetLoadingMode, (int* mode), give(mode, kLazyLoading))
FORWARD(cuModuleGetFunction, (FunctionEntry * *function, LibraryHandle* module, const char* name),
        cudaLibraryGetKernel(function, module, name))
FORWARD(cuModuleGetFunctionCount, (unsigned* count, LibraryHandle* module),
        cudaLibraryGetKernelCount(count, module))
FORWARD(cuModuleEnumerateFunctions, (FunctionEntry * *functions, unsigned count, LibraryHandle* module),
        cudaLibraryEnumerateKernels(functions, count, module))
FORWARD(cuModuleGetGlobal_v2, (void** pointer, size_t* bytes, LibraryHandle* module, const char* name),
        pointer || bytes ? cudaLibraryGetGlobal(pointer, bytes, module, name) : Status::InvalidValue)

// ---- Libraries ----

DRIVER_API Status cuLibraryLoadData(LibraryHandle** library, const void* code, JitOption* options,
                                    void** values, unsigned count, int*, void**, unsigned) {
  return load_data(library, code, {count, options, values});
}
DRIVER_API Status cuLibraryLoadFromFile(LibraryHandle** library, const char* path, JitOption* options,
                                        void** values, unsigned count, int*, void**, unsigned) {
  return load_file(library, path, {count, options, values});
}
FORWARD(cuLibraryUnload, (LibraryHandle * library), cudaLibraryUnload(library))
FORWARD(cuLibraryGetKernel, (FunctionEntry * *kernel, LibraryHandle* library, const char* name),
        cudaLibraryGetKernel(kernel, library, name))
FORWARD(cuLibraryGetKernelCount, (unsigned* count, LibraryHandle* library),
        cudaLibraryGetKernelCount(count, library))
FORWARD(cuLibraryEnumerateKernels, (FunctionEntry * *kernels, unsigned count, LibraryHandle* library),
        cudaLibraryEnumerateKernels(kernels, count, library))
FORWARD(cuLibraryGetModule, (LibraryHandle * *module, LibraryHandle* library),
        library ? give(module, library) : Status::InvalidResourceHandle)
FORWARD(cuLibraryGetGlobal, (void** pointer, size_t* bytes, LibraryHandle* library, const char* name),
        cudaLibraryGetGlobal(pointer, bytes, library, name))
FORWARD(cuLibraryGetManaged, (void** pointer, size_t* bytes, LibraryHandle* library, const char* name),
        cudaLibraryGetManaged(pointer, bytes, library, name))

// ---- Linking ----

namespace {

struct Linker {
  JitLogs logs{0, nullptr, nullptr};
  std::vector<std::string> texts;
  std::string linked;  // what cuLinkComplete hands out
};

Status add(Linker* linker, JitInput type, const void* data, size_t bytes) {
  if (!linker || !data) return Status::InvalidValue;
  if (type != JitInput::Ptx)
    return assay_not_supported("linking anything but PTX with cuLinkAddData or cuLinkAddFile");
  std::string text(static_cast<const char*>(data), bytes);
  text.resize(std::strlen(text.c_str()));  // the final zero may be counted
  linker->texts.push_back(std::move(text));
  return Status::Success;
}

}  // namespace

DRIVER_API Status cuLinkCreate_v2(unsigned count, JitOption* options, void** values, Linker** linker) {
  return in_context([&] {
    if (!linker) return Status::InvalidValue;
    *linker = new Linker{.logs = {count, options, values}, .texts = {}, .linked = {}};
    return Status::Success;
  });
}
DRIVER_API Status cuLinkAddData_v2(Linker* linker, JitInput type, void* data, size_t bytes, const char*,
                                   unsigned, JitOption*, void**) {
  return in_context([&] { return add(linker, type, data, bytes); });
}
DRIVER_API Status cuLinkAddFile_v2(Linker* linker, JitInput type, const char* path, unsigned, JitOption*,
                                   void**) {
  return in_context([&] {
    if (!path) return Status::InvalidValue;
    std::ifstream file(path, std::ios::binary);
    if (!file) return Status::FileNotFound;
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return add(linker, type, text.data(), text.size());
  });
}
DRIVER_API Status cuLinkComplete(Linker* linker, const void** image, size_t* bytes) {
  return in_context([&] {
    if (!linker || !image || linker->texts.empty()) return Status::InvalidValue;
    std::vector<const char*> texts;
    for (const std::string& text : linker->texts) texts.push_back(text.c_str());
    size_t size = 0;
    (void)assay_link(texts.data(), texts.size(), nullptr, &size);
    linker->linked.resize(size);
    (void)assay_link(texts.data(), texts.size(), linker->linked.data(), &size);
    linker->logs.write("");
    *image = linker->linked.data();
    if (bytes) *bytes = size;
    return Status::Success;
  });
}
DRIVER_API Status cuLinkDestroy(Linker* linker) {
  return in_context([&] {
    delete linker;
    return linker ? Status::Success : Status::InvalidResourceHandle;
  });
}
// Before CUDA 6.5 options were passed in another way; what is passed is the same.
DRIVER_API Status cuLinkCreate(unsigned count, JitOption* options, void** values, Linker** linker) {
  return cuLinkCreate_v2(count, options, values, linker);
}
DRIVER_API Status cuLinkAddData(Linker* linker, JitInput type, void* data, size_t bytes, const char* name,
                                unsigned count, JitOption* options, void** values) {
  return cuLinkAddData_v2(linker, type, data, bytes, name, count, options, values);
}
DRIVER_API Status cuLinkAddFile(Linker* linker, JitInput type, const char* path, unsigned count,
                                JitOption* options, void** values) {
  return cuLinkAddFile_v2(linker, type, path, count, options, values);
}
