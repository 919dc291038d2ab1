// Registration of device code by the program, kernels and their launches.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cudart/launch.h"
#include "cudart/properties.h"
#include "cudart/python_frames.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

struct CallConfiguration {
  Dim grid, block;
  size_t shared_bytes;
  StreamHandle* stream;
};

std::vector<CallConfiguration>& call_stack() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

// Whether the launch under way was written as kernel<<<...>>>.
bool& launched_by_syntax() {
  thread_local bool by_syntax = false;
  return by_syntax;
}

Status launch(const LaunchRequest& request, StreamHandle* handle) {
  const bool by_syntax = std::exchange(launched_by_syntax(), false);
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    KernelSpec spec;
    HostCheck* check = context.host_check();
    if (Status status = make_kernel_spec(context, request, spec); status != Status::Success) {
      if (stream.capture) stream.capture->invalid = true;
      if (check) check->launch_failed(spec.function ? spec.function->name : "?", status, by_syntax);
      return status;
    }
    const std::string name = check ? spec.function->name : "";
    if (check) {
      spec.origin = python_stack();
      name_memory(context, spec);
    }
    assay::vgpu::OperationId operation = 0;
    const Status status = dispatch(context, &stream, std::move(spec), &operation);
    if (check && operation) check->launched(operation, name);
    return status;
  });
}

// `body(Context&, FunctionEntry&)` on a loaded kernel.
template <class Body>
Status function_api(const void* function, Body body) {
  return api([&](Context& context) -> Status {
    Modules& modules = Runtime::get().modules();
    FunctionEntry* entry = modules.function(function);
    if (!entry) return function ? Status::InvalidResourceHandle : Status::InvalidDeviceFunction;
    if (Status status = modules.load(*entry, context); status != Status::Success) return status;
    return body(context, *entry);
  });
}

uint32_t threads_limit(const assay::ptx::Function& kernel) {
  uint64_t most = kMaxThreads;
  for (const auto* limit : {kernel.max_threads, kernel.required_threads})
    if (limit[0]) most = std::min(most, uint64_t{limit[0]} * std::max(limit[1], 1u) * std::max(limit[2], 1u));
  return static_cast<uint32_t>(most);
}

Status set_attribute(FunctionEntry& function, FunctionAttribute attribute, int value) {
  uint32_t fixed = function.kernel->function->shared_bytes;
  switch (attribute) {
    case FunctionAttribute::MaxDynamicShared:
      if (value < 0 || static_cast<uint64_t>(value) + fixed > kSharedOptin) return Status::InvalidValue;
      function.max_dynamic_shared = static_cast<uint32_t>(value);
      return Status::Success;
    case FunctionAttribute::Carveout:
      if (value < -1 || value > 100) return Status::InvalidValue;
      function.carveout = value;
      return Status::Success;
    case FunctionAttribute::NonPortableCluster:
      function.nonportable_cluster = value != 0;
      return Status::Success;
    case FunctionAttribute::ClusterWidth:
      function.required_cluster.x = static_cast<uint32_t>(value);
      break;
    case FunctionAttribute::ClusterHeight:
      function.required_cluster.y = static_cast<uint32_t>(value);
      break;
    case FunctionAttribute::ClusterDepth:
      function.required_cluster.z = static_cast<uint32_t>(value);
      break;
    case FunctionAttribute::ClusterPolicy:
      function.cluster_policy = value;
      break;
    default:
      return Status::InvalidValue;
  }
  return Status::Success;
}

// Registers are given by the assembler. Where it has not been at work, an estimate.
int registers_of(FunctionEntry& entry) {
  if (const uint32_t known = Runtime::get().modules().registers(entry)) return static_cast<int>(known);
  const assay::ptx::Function& kernel = *entry.kernel->function->ptx;
  if (kernel.max_registers) return static_cast<int>(std::min(kernel.max_registers, 255u));
  uint32_t estimate = 16 + static_cast<uint32_t>(kernel.registers.size()) / 8;
  return static_cast<int>(std::min((estimate + 7) / 8 * 8, 255u));
}

// Which virtual architecture the code was compiled for: 80 of "sm_80", 90 of "sm_90a". Libraries choose by it between
// variants that must be the same on the host and on the device.
int ptx_version_of(const assay::ptx::Module& module) {
  const size_t digits = module.target.find_first_of("0123456789");
  return digits == std::string::npos ? static_cast<int>(kArchitecture) : std::atoi(&module.target[digits]);
}

}  // namespace

// ---- Registration ----

ASSAY_API void** __cudaRegisterFatBinary(void* wrapper) {
  void** handle = nullptr;
  (void)plain_api([&] {
    handle = reinterpret_cast<void**>(Runtime::get().modules().add_wrapper(wrapper));
    return Status::Success;
  });
  return handle;
}

ASSAY_API void __cudaRegisterFatBinaryEnd(void**) {}

ASSAY_API void __cudaUnregisterFatBinary(void** handle) {
  (void)guarded([&] {
    Runtime& runtime = Runtime::get();
    if (!runtime.forked()) runtime.modules().remove(reinterpret_cast<Binary*>(handle), nullptr);
    return Status::Success;
  });
}

ASSAY_API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, void*,
                                      void*, Dim*, Dim*, int*) {
  (void)guarded([&] {
    if (handle && name) Runtime::get().modules().add_function(reinterpret_cast<Binary*>(handle), host, name);
    return Status::Success;
  });
}

ASSAY_API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t size, int,
                                 int) {
  (void)guarded([&] {
    if (handle && name)
      Runtime::get().modules().add_variable(reinterpret_cast<Binary*>(handle), host, name, size, nullptr);
    return Status::Success;
  });
}

ASSAY_API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t size,
                                        int, int) {
  (void)guarded([&] {
    if (handle && name)
      Runtime::get().modules().add_variable(reinterpret_cast<Binary*>(handle), host, name, size, host);
    return Status::Success;
  });
}

ASSAY_API void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
ASSAY_API void __cudaRegisterUnifiedTable(void**, void*) {}

// Makes __managed__ variables usable by the host.
ASSAY_API char __cudaInitModule(void** handle) {
  Status status = api([&](Context& context) {
    if (!handle) return Status::InvalidValue;
    return Runtime::get().modules().load(*reinterpret_cast<Binary*>(handle), context);
  });
  return status == Status::Success;
}

// ---- Launches ----

ASSAY_API unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared_bytes,
                                               StreamHandle* stream) {
  call_stack().push_back({grid, block, shared_bytes, stream});
  return 0;
}

ASSAY_API Status __cudaPopCallConfiguration(Dim* grid, Dim* block, size_t* shared_bytes, void* stream) {
  if (call_stack().empty()) return note(Status::MissingConfiguration);
  CallConfiguration top = call_stack().back();
  call_stack().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<StreamHandle**>(stream) = top.stream;
  launched_by_syntax() = true;
  return Status::Success;
}

ASSAY_API Status cudaLaunchKernel(const void* function, Dim grid, Dim block, void** arguments,
                                  size_t shared_bytes, StreamHandle* stream) {
  return launch({.function = function,
                 .grid = grid,
                 .block = block,
                 .shared_bytes = shared_bytes,
                 .attributes = {},
                 .arguments = arguments},
                stream);
}
ASSAY_API_PTSZ(cudaLaunchKernel,
               (const void* function, Dim grid, Dim block, void** arguments, size_t shared_bytes,
                StreamHandle* stream),
               function, grid, block, arguments, shared_bytes, own_stream(stream))

ASSAY_API Status __cudaLaunchKernel(FunctionEntry* kernel, Dim grid, Dim block, void** arguments,
                                    size_t shared_bytes, StreamHandle* stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
ASSAY_API_PTSZ(__cudaLaunchKernel,
               (FunctionEntry * kernel, Dim grid, Dim block, void** arguments, size_t shared_bytes,
                StreamHandle* stream),
               kernel, grid, block, arguments, shared_bytes, own_stream(stream))

ASSAY_API Status cudaLaunchCooperativeKernel(const void* function, Dim grid, Dim block, void** arguments,
                                             size_t shared_bytes, StreamHandle* stream) {
  return launch({.function = function,
                 .grid = grid,
                 .block = block,
                 .shared_bytes = shared_bytes,
                 .attributes = {},
                 .cooperative = true,
                 .arguments = arguments},
                stream);
}
ASSAY_API_PTSZ(cudaLaunchCooperativeKernel,
               (const void* function, Dim grid, Dim block, void** arguments, size_t shared_bytes,
                StreamHandle* stream),
               function, grid, block, arguments, shared_bytes, own_stream(stream))

namespace {

Status launch_configured(const LaunchConfiguration* configuration, const void* function, void** arguments,
                         StreamHandle* stream, void** extra = nullptr) {
  return launch({.function = function,
                 .grid = configuration->grid,
                 .block = configuration->block,
                 .shared_bytes = configuration->dynamic_shared,
                 .attributes = {configuration->attributes,
                                configuration->attributes ? configuration->attribute_count : 0},
                 .arguments = arguments,
                 .extra = extra},
                stream);
}

}  // namespace

ASSAY_API Status cudaLaunchKernelExC(const LaunchConfiguration* configuration, const void* function,
                                     void** arguments) {
  if (!configuration) return note(Status::InvalidValue);
  return launch_configured(configuration, function, arguments, configuration->stream);
}
ASSAY_API Status cudaLaunchKernelExC_ptsz(const LaunchConfiguration* configuration, const void* function,
                                          void** arguments) {
  if (!configuration) return note(Status::InvalidValue);
  return launch_configured(configuration, function, arguments, own_stream(configuration->stream));
}

ASSAY_API Status assay_launch(const LaunchConfiguration* configuration, const void* function,
                              void** parameters, void** extra) {
  return launch_configured(configuration, function, parameters, configuration->stream, extra);
}

// ---- Kernels and what is known of them ----

ASSAY_API Status cudaGetFuncBySymbol(FunctionEntry** function, const void* symbol) {
  return api([&](Context& context) {
    FunctionEntry* entry = Runtime::get().modules().function(symbol);
    if (!function) return Status::InvalidValue;
    if (!entry) return Status::InvalidDeviceFunction;
    *function = entry;
    return Runtime::get().modules().load(*entry, context);
  });
}

// Called for every launch site before main's first launch: must not load anything.
ASSAY_API Status __cudaGetKernel(FunctionEntry** kernel, const void* host) {
  return plain_api([&] {
    if (!kernel) return Status::InvalidValue;
    FunctionEntry* entry = Runtime::get().modules().function(host);
    if (!entry) return Status::InvalidDeviceFunction;
    *kernel = entry;
    return Status::Success;
  });
}
ASSAY_API Status cudaGetKernel(FunctionEntry** kernel, const void* host) {
  return __cudaGetKernel(kernel, host);
}

ASSAY_API Status cudaFuncGetName(const char** name, const void* function) {
  return plain_api([&] {
    FunctionEntry* entry = Runtime::get().modules().function(function);
    if (!name) return Status::InvalidValue;
    if (!entry) return Status::InvalidDeviceFunction;
    *name = entry->name.c_str();
    return Status::Success;
  });
}

ASSAY_API Status cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* size) {
  return function_api(function, [&](Context&, FunctionEntry& entry) {
    const auto& kernel = *entry.kernel->function;
    if (!offset || index >= kernel.ptx->parameters.size()) return Status::InvalidValue;
    *offset = kernel.parameter_offsets[index];
    if (size) *size = kernel.ptx->parameters[index].size;
    return Status::Success;
  });
}

ASSAY_API Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  return function_api(function, [&](Context&, FunctionEntry& entry) {
    if (!attributes) return Status::InvalidValue;
    const auto& kernel = *entry.kernel->function;
    Dim cluster = required_cluster(entry);
    *attributes = {};
    attributes->shared_bytes = kernel.shared_bytes;
    attributes->local_bytes = kernel.local_bytes;
    attributes->max_threads = static_cast<int>(threads_limit(*kernel.ptx));
    attributes->registers = registers_of(entry);
    attributes->ptx_version = ptx_version_of(entry.kernel->program->module);
    attributes->binary_version = static_cast<int>(kArchitecture);
    attributes->max_dynamic_shared = static_cast<int>(dynamic_shared_limit(entry));
    attributes->carveout = entry.carveout;
    attributes->cluster_must_be_set = kernel.ptx->explicit_cluster;
    attributes->cluster_x = static_cast<int>(cluster.x);
    attributes->cluster_y = static_cast<int>(cluster.y);
    attributes->cluster_z = static_cast<int>(cluster.z);
    attributes->cluster_policy = entry.cluster_policy;
    attributes->nonportable_cluster = entry.nonportable_cluster;
    return Status::Success;
  });
}

ASSAY_API Status cudaFuncSetAttribute(const void* function, FunctionAttribute attribute, int value) {
  return function_api(function,
                      [&](Context&, FunctionEntry& entry) { return set_attribute(entry, attribute, value); });
}

ASSAY_API Status cudaKernelSetAttributeForDevice(FunctionEntry* kernel, FunctionAttribute attribute,
                                                 int value, int device) {
  if (device != 0) return note(Status::InvalidDevice);
  return cudaFuncSetAttribute(kernel, attribute, value);
}

ASSAY_API Status cudaFuncSetCacheConfig(const void* function, int config) {
  return function_api(function, [&](Context&, FunctionEntry&) {
    return config >= 0 && config <= 3 ? Status::Success : Status::InvalidValue;
  });
}
ASSAY_API Status cudaFuncSetSharedMemConfig(const void* function, int config) {
  return function_api(function, [&](Context&, FunctionEntry&) {
    return config >= 0 && config <= 2 ? Status::Success : Status::InvalidValue;
  });
}

// ---- Occupancy ----

ASSAY_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                        int threads, size_t dynamic_shared,
                                                                        unsigned flags) {
  return function_api(function, [&](Context& context, FunctionEntry& entry) {
    if (!blocks || threads <= 0 || flags > 1) return Status::InvalidValue;
    bool fits = dynamic_shared <= dynamic_shared_limit(entry);
    *blocks = fits ? static_cast<int>(
                         resident_blocks(context, entry, static_cast<uint32_t>(threads), dynamic_shared))
                   : 0;
    return Status::Success;
  });
}
ASSAY_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                               size_t dynamic_shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_shared, 0);
}

ASSAY_API Status cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks,
                                                           int threads) {
  return function_api(function, [&](Context&, FunctionEntry& entry) {
    if (!bytes || blocks <= 0 || threads <= 0) return Status::InvalidValue;
    uint32_t share = kSharedPerMultiprocessor / static_cast<uint32_t>(blocks) / 128 * 128;
    uint32_t used = entry.kernel->function->shared_bytes + kReservedShared;
    *bytes = std::min(share > used ? share - used : 0, dynamic_shared_limit(entry));
    return Status::Success;
  });
}

ASSAY_API Status cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                      const LaunchConfiguration* configuration) {
  return function_api(function, [&](Context&, FunctionEntry& entry) {
    if (!size || !configuration) return Status::InvalidValue;
    *size = static_cast<int>(entry.nonportable_cluster ? kLargestCluster : kPortableCluster);
    return Status::Success;
  });
}

ASSAY_API Status cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                const LaunchConfiguration* configuration) {
  return function_api(function, [&](Context& context, FunctionEntry& entry) {
    if (!clusters || !configuration) return Status::InvalidValue;
    uint64_t size = 1;
    if (Dim own = required_cluster(entry); own.x) size = uint64_t{own.x} * own.y * own.z;
    for (unsigned i = 0; i < configuration->attribute_count; ++i)
      if (configuration->attributes[i].id == AttributeId::ClusterDimension) {
        const Dim& dim = configuration->attributes[i].value.dim;
        size = uint64_t{dim.x} * dim.y * dim.z;
      }
    const Dim& block = configuration->block;
    uint32_t resident =
        resident_blocks(context, entry, block.x * block.y * block.z, configuration->dynamic_shared);
    const uint64_t blocks = uint64_t{resident} * context.device().options().multiprocessors;
    *clusters = size ? static_cast<int>(blocks / size) : 0;
    return Status::Success;
  });
}
