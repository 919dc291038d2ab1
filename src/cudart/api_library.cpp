// cudaLibrary*: device code that the program loads by itself.
#include <cstring>

#include "base/file.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

Binary* binary_of(LibraryHandle* library) {
  return reinterpret_cast<Binary*>(library);
}

Status load(LibraryHandle** library, const void* code) {
  return api([&](Context&) {
    if (!library || !code) return Status::InvalidValue;
    *library = reinterpret_cast<LibraryHandle*>(Runtime::get().modules().add_image(code));
    return Status::Success;
  });
}

Status find_variable(void** pointer, size_t* bytes, LibraryHandle* library, const char* name) {
  return api([&](Context& context) {
    if (!library || !name) return Status::InvalidValue;
    Variable variable;
    Status status = Runtime::get().modules().variable_named(*binary_of(library), name, context, variable);
    if (status == Status::InvalidSymbol) return Status::SymbolNotFound;
    if (pointer) *pointer = reinterpret_cast<void*>(variable.address);
    if (bytes) *bytes = variable.size;
    return status;
  });
}

}  // namespace

ASSAY_API Status cudaLibraryLoadData(LibraryHandle** library, const void* code, int*, void**, unsigned, int*,
                                     void**, unsigned) {
  return load(library, code);
}

ASSAY_API Status cudaLibraryLoadFromFile(LibraryHandle** library, const char* path, int*, void**, unsigned,
                                         int*, void**, unsigned) {
  if (!path) return note(Status::InvalidValue);
  auto code = assay::read_file(path);
  if (!code) return note(Status::FileNotFound);
  code->resize(code->size() + 16);  // a reader may look at a header beyond a short file's end
  return load(library, code->data());
}

ASSAY_API Status cudaLibraryUnload(LibraryHandle* library) {
  return api([&](Context& context) {
    if (!library) return Status::InvalidResourceHandle;
    context.streams().synchronise_all();
    Runtime::get().modules().remove(binary_of(library), &context);
    return Status::Success;
  });
}

ASSAY_API Status cudaLibraryGetKernel(FunctionEntry** kernel, LibraryHandle* library, const char* name) {
  return api([&](Context& context) {
    if (!kernel || !library || !name) return Status::InvalidValue;
    if (Status status = Runtime::get().modules().load(*binary_of(library), context);
        status != Status::Success)
      return status;
    for (FunctionEntry* entry : Runtime::get().modules().kernels(*binary_of(library), context))
      if (entry->name == name) {
        *kernel = entry;
        return Status::Success;
      }
    return Status::SymbolNotFound;
  });
}

ASSAY_API Status cudaLibraryGetKernelCount(unsigned* count, LibraryHandle* library) {
  return api([&](Context& context) {
    if (!count || !library) return Status::InvalidValue;
    *count = static_cast<unsigned>(Runtime::get().modules().kernels(*binary_of(library), context).size());
    return Status::Success;
  });
}

ASSAY_API Status cudaLibraryEnumerateKernels(FunctionEntry** kernels, unsigned count,
                                             LibraryHandle* library) {
  return api([&](Context& context) {
    if (!kernels || !library) return Status::InvalidValue;
    auto all = Runtime::get().modules().kernels(*binary_of(library), context);
    for (size_t i = 0; i < std::min<size_t>(count, all.size()); ++i) kernels[i] = all[i];
    return Status::Success;
  });
}

ASSAY_API Status cudaLibraryGetGlobal(void** pointer, size_t* bytes, LibraryHandle* library,
                                      const char* name) {
  return find_variable(pointer, bytes, library, name);
}
ASSAY_API Status cudaLibraryGetManaged(void** pointer, size_t* bytes, LibraryHandle* library,
                                       const char* name) {
  return find_variable(pointer, bytes, library, name);
}
