#include "subject/worker/entry_point.h"

#include <dlfcn.h>
#include <ffi.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iterator>
#include <vector>

#include "subject/worker/failure.h"

namespace assay::worker {

using protocol::CallRequest;
using protocol::LaunchShape;
using protocol::ScalarArgument;

namespace {

constexpr uint64_t kSharedWithoutAsking = 48 * 1024;  // bytes of dynamic shared memory
constexpr int kMaxDynamicSharedSize = 8;              // cudaFuncAttributeMaxDynamicSharedMemorySize

ffi_type* type_of(const ScalarArgument& scalar) {
  if (scalar.is_float) return scalar.bytes == 8 ? &ffi_type_double : &ffi_type_float;
  switch (scalar.bytes) {
    case 1:
      return scalar.is_signed ? &ffi_type_sint8 : &ffi_type_uint8;
    case 2:
      return scalar.is_signed ? &ffi_type_sint16 : &ffi_type_uint16;
    case 4:
      return scalar.is_signed ? &ffi_type_sint32 : &ffi_type_uint32;
    default:
      return scalar.is_signed ? &ffi_type_sint64 : &ffi_type_uint64;
  }
}

}  // namespace

// As libffi and cudaLaunchKernel take them: pointers to values that stay where they are.
struct EntryPoint::Arguments {
  std::deque<uint64_t> values;
  std::vector<void*> pointers;
  std::vector<ffi_type*> types;
  void add(uint64_t bits, ffi_type* type) {
    values.push_back(bits);
    pointers.push_back(&values.back());
    types.push_back(type);
  }
  void add_pointer(const void* pointer) { add(reinterpret_cast<uint64_t>(pointer), &ffi_type_pointer); }
};

std::string EntryPoint::load() {
  return setup_.is_ptx ? load_ptx() : load_library();
}

std::string EntryPoint::load_library() {
  void* library = dlopen(setup_.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::string("the subject cannot be loaded: ") + dlerror();
  function_ = dlsym(library, setup_.symbol.c_str());
  if (!function_) return "the subject has no function " + setup_.symbol + " (is it extern \"C\"?)";
  return "";
}

std::string EntryPoint::load_ptx() {
  std::ifstream file(setup_.path, std::ios::binary);
  ptx_.assign(std::istreambuf_iterator<char>(file), {});
  void* library = nullptr;
  check(runtime_.cudaLibraryLoadData(&library, ptx_.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "the PTX could not be loaded");
  check(runtime_.cudaLibraryGetKernel(&kernel_, library, setup_.symbol.c_str()),
        "the kernel was not found in the PTX");
  return "";
}

EntryPoint::Arguments EntryPoint::arguments(const CallRequest& call, std::size_t which,
                                            const Buffers& buffers) const {
  Arguments arguments;
  for (const protocol::Argument& argument : call.arguments) {
    if (const auto* buffer = std::get_if<protocol::BufferArgument>(&argument))
      arguments.add_pointer(buffers.address(call, which, buffer->buffer));
    else if (const auto* scalar = std::get_if<ScalarArgument>(&argument))
      arguments.add(scalar->bits, type_of(*scalar));
    else
      arguments.add_pointer(streams_[which]);
  }
  return arguments;
}

int EntryPoint::call(const CallRequest& call, std::size_t which, const Buffers& buffers) const {
  Arguments given = arguments(call, which, buffers);
  if (setup_.is_kernel) {
    launch(call.launch.value_or(LaunchShape{}), given.pointers.data(), streams_[which]);
    return 0;
  }
  ffi_cif interface;
  if (ffi_prep_cif(&interface, FFI_DEFAULT_ABI, static_cast<unsigned>(given.types.size()),
                   setup_.returns_int ? &ffi_type_sint32 : &ffi_type_void, given.types.data()) != FFI_OK)
    return -1;
  ffi_arg returned = 0;
  ffi_call(&interface, reinterpret_cast<void (*)()>(function_), &returned, given.pointers.data());
  return setup_.returns_int ? static_cast<int>(returned) : 0;
}

void EntryPoint::launch(const LaunchShape& shape, void** arguments, Stream stream) const {
  const auto& [grid, block, shared] = shape;
  const auto is_zero = [](uint32_t n) { return n == 0; };
  if (std::any_of(grid.begin(), grid.end(), is_zero) || std::any_of(block.begin(), block.end(), is_zero))
    return;  // nothing to launch
  if (!setup_.is_ptx) {
    using Launcher = int (*)(const unsigned*, unsigned long long, void**, Stream);
    const unsigned extents[6] = {grid[0], grid[1], grid[2], block[0], block[1], block[2]};
    check(reinterpret_cast<Launcher>(function_)(extents, shared, arguments, stream), "the launch");
    return;
  }
  if (shared > kSharedWithoutAsking)
    check(runtime_.cudaFuncSetAttribute(kernel_, kMaxDynamicSharedSize, static_cast<int>(shared)),
          "the launch");
  check(runtime_.cudaLaunchKernel(kernel_, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
                                  arguments, shared, stream),
        "the launch");
}

}  // namespace assay::worker
