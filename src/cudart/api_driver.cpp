// What libcuda.so.1 asks of the runtime beyond its API (api.h), and the way from the runtime to that library.
#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "cudart/copy.h"
#include "cudart/properties.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

ASSAY_API bool* assay_in_driver() {
  return &thread_state().in_driver;
}
ASSAY_API bool assay_runtime_called() {
  return Runtime::get().called();
}
ASSAY_API bool assay_process_uses_runtime() {
  return Runtime::get().used();
}
ASSAY_API bool assay_thread_uses_runtime() {
  return Runtime::get().used() && thread_state().uses_runtime;
}
ASSAY_API Status assay_not_supported(const char* function) {
  return not_supported(function);
}

ASSAY_API Status assay_fill(const MemsetParams* params, StreamHandle* handle, bool synchronous) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    return fill(context, stream, *params, 1, 0, synchronous);
  });
}

ASSAY_API Status assay_find_allocation(AllocationInfo* info, const void* pointer) {
  return api([&](Context& context) {
    const auto found = context.memory().find(reinterpret_cast<assay::vgpu::Address>(pointer));
    if (!info || !found) return Status::InvalidValue;
    PointerAttributes attributes;
    if (Status status = cudaPointerGetAttributes(&attributes, pointer); status != Status::Success)
      return status;
    *info = {.start = reinterpret_cast<void*>(found->base),
             .bytes = found->size,
             .kind = attributes.kind,
             .id = found->id,
             .pool = context.pool_of(found->base)};
    return Status::Success;
  });
}

ASSAY_API Status assay_load_library(LibraryHandle* library, const char** message) {
  return api([&](Context& context) {
    auto* binary = reinterpret_cast<Binary*>(library);
    if (!binary) return Status::InvalidResourceHandle;
    const Status status = Runtime::get().modules().load(*binary, context);
    if (message) *message = binary->message.c_str();
    return status;
  });
}

ASSAY_API Status assay_library_of(LibraryHandle** library, const void* function) {
  return plain_api([&] {
    FunctionEntry* entry = Runtime::get().modules().function(function);
    if (!library) return Status::InvalidValue;
    if (!entry) return Status::InvalidResourceHandle;
    *library = reinterpret_cast<LibraryHandle*>(entry->binary);
    return Status::Success;
  });
}

ASSAY_API Status assay_link(const char* const* texts, size_t count, char* linked, size_t* bytes) {
  return plain_api([&] {
    if (!texts || count == 0 || !bytes) return Status::InvalidValue;
    const std::string text = link_texts({texts, texts + count});
    if (linked && *bytes > text.size()) std::memcpy(linked, text.c_str(), text.size() + 1);
    *bytes = text.size() + 1;
    return Status::Success;
  });
}

// ---- From the runtime to the driver ----

namespace {

using Lookup = Status (*)(const char* symbol, void** entry, int version, uint64_t flags, int* found);

// cuGetProcAddress of the libcuda.so.1 that lies beside this library; null: it is not there.
Lookup driver_lookup() {
  static const Lookup lookup = [] {
    Dl_info own{};
    dladdr(reinterpret_cast<const void*>(&driver_lookup), &own);
    const std::filesystem::path path = std::filesystem::path(own.dli_fname).replace_filename("libcuda.so.1");
    void* driver = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!driver) Runtime::get().writer().say_once(dlerror());
    return driver ? reinterpret_cast<Lookup>(dlsym(driver, "cuGetProcAddress_v2")) : nullptr;
  }();
  return lookup;
}

constexpr int kFound = 0, kNotFound = 1;
constexpr uint64_t kPerThreadDefault = 2;

Status entry_point(const char* symbol, void** entry, unsigned version, uint64_t flags, int* found) {
  return plain_api([&] {
    if (!symbol || !entry || flags > kPerThreadDefault) return Status::InvalidValue;
    *entry = nullptr;
    int result = kNotFound;
    if (Lookup lookup = driver_lookup())
      (void)lookup(symbol, entry, static_cast<int>(version), flags, &result);
    if (!*entry && result == kFound) result = kNotFound;
    if (found) *found = result;
    return *entry || found ? Status::Success : Status::SymbolNotFound;
  });
}

}  // namespace

ASSAY_API Status cudaGetDriverEntryPointByVersion(const char* symbol, void** entry, unsigned version,
                                                  unsigned long long flags, int* found) {
  return entry_point(symbol, entry, version, flags, found);
}
ASSAY_API Status cudaGetDriverEntryPoint(const char* symbol, void** entry, unsigned long long flags,
                                         int* found) {
  return entry_point(symbol, entry, kDriverVersion, flags, found);
}
// Flags 0 ask for what the program was compiled for: per-thread default streams.
ASSAY_API Status cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** entry, unsigned version,
                                                       unsigned long long flags, int* found) {
  return entry_point(symbol, entry, version, flags ? flags : kPerThreadDefault, found);
}
ASSAY_API Status cudaGetDriverEntryPoint_ptsz(const char* symbol, void** entry, unsigned long long flags,
                                              int* found) {
  return entry_point(symbol, entry, kDriverVersion, flags ? flags : kPerThreadDefault, found);
}
