#include "cudart/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cudart/properties.h"
#include "cudart/runtime.h"

namespace assay::cudart {
namespace {

constexpr unsigned kLastAttribute = 16;

vgpu::Dim3 dim3_of(const Dim& dim) {
  return {dim.x, dim.y, dim.z};
}
uint64_t count_of(const Dim& dim) {
  return uint64_t{dim.x} * dim.y * dim.z;
}

bool within(const Dim& dim, const uint32_t (&limit)[3]) {
  return dim.x <= limit[0] && dim.y <= limit[1] && dim.z <= limit[2];
}

// Attributes that change nothing here are accepted and remembered.
Status apply_attributes(std::span<const LaunchAttribute> attributes, KernelSpec& spec) {
  for (const LaunchAttribute& attribute : attributes) {
    if (static_cast<unsigned>(attribute.id) > kLastAttribute) return Status::InvalidValue;
    switch (attribute.id) {
      case AttributeId::Cooperative:
        spec.cooperative = attribute.value.number != 0;
        break;
      case AttributeId::ClusterDimension:
        spec.cluster = attribute.value.dim;
        break;
      case AttributeId::DeviceUpdatable:
        if (attribute.value.number != 0) return Status::NotSupported;
        break;
      default:
        break;
    }
    spec.attributes[attribute.id] = attribute.value;
  }
  return Status::Success;
}

Status check_cluster(const KernelSpec& spec) {
  const Dim& cluster = spec.cluster;
  uint64_t size = count_of(cluster);
  if (size == 0) return cluster.x || cluster.y || cluster.z ? Status::InvalidClusterSize : Status::Success;
  if (size > kLargestCluster || (size > kPortableCluster && !spec.function->nonportable_cluster))
    return Status::InvalidClusterSize;
  if (spec.grid.x % cluster.x || spec.grid.y % cluster.y || spec.grid.z % cluster.z)
    return Status::InvalidClusterSize;
  return Status::Success;
}

Status check_shape(const KernelSpec& spec, size_t shared_bytes) {
  if (count_of(spec.grid) == 0 || count_of(spec.block) == 0) return Status::InvalidValue;
  if (!within(spec.grid, kMaxGrid) || !within(spec.block, kMaxBlock)) return Status::InvalidValue;
  if (count_of(spec.block) > kMaxThreads) return Status::InvalidValue;
  if (shared_bytes > dynamic_shared_limit(*spec.function)) return Status::InvalidValue;
  const ptx::Function& kernel = *spec.function->kernel->function->ptx;
  auto product = [](const uint32_t(&dim)[3]) {
    return uint64_t{dim[0]} * std::max(dim[1], 1u) * std::max(dim[2], 1u);
  };
  if (kernel.max_threads[0] && count_of(spec.block) > product(kernel.max_threads))
    return Status::InvalidValue;
  const uint32_t(&required)[3] = kernel.required_threads;
  if (required[0] && (spec.block.x != required[0] || spec.block.y != std::max(required[1], 1u) ||
                      spec.block.z != std::max(required[2], 1u)))
    return Status::InvalidValue;
  return check_cluster(spec);
}

// A multiprocessor gives registers to warps, in units. One block must fit.
bool has_registers(const KernelSpec& spec) {
  constexpr uint64_t kRegisters = 65536, kUnit = 256, kMostPerThread = 255;
  const uint64_t warps = (count_of(spec.block) + vgpu::kWarpSize - 1) / vgpu::kWarpSize;
  const auto fits = [&](uint64_t registers) {
    return warps * ((registers * vgpu::kWarpSize + kUnit - 1) / kUnit * kUnit) <= kRegisters;
  };
  return fits(kMostPerThread) || fits(Runtime::get().modules().registers(*spec.function));
}

Status pack_arguments(const LaunchRequest& request, KernelSpec& spec) {
  const vgpu::Function& function = *spec.function->kernel->function;
  const auto& parameters = function.ptx->parameters;
  spec.parameters.resize(function.parameter_bytes);
  if (parameters.empty()) return Status::Success;
  if (request.arguments) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!request.arguments[i]) return Status::InvalidValue;
      std::memcpy(spec.parameters.data() + function.parameter_offsets[i], request.arguments[i],
                  parameters[i].size);
    }
    return Status::Success;
  }
  // {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END}
  const void* buffer = nullptr;
  size_t size = 0;
  for (void** item = request.extra; item && *item; item += 2) {
    auto tag = reinterpret_cast<uintptr_t>(*item);
    if (tag == 1)
      buffer = item[1];
    else if (tag == 2)
      size = *static_cast<size_t*>(item[1]);
    else
      return Status::InvalidValue;
  }
  if (!buffer || size > spec.parameters.size()) return Status::InvalidValue;
  std::memcpy(spec.parameters.data(), buffer, size);
  return Status::Success;
}

}  // namespace

Dim required_cluster(const FunctionEntry& function) {
  const uint32_t(&required)[3] = function.kernel->function->ptx->required_cluster;
  if (required[0]) return {required[0], std::max(required[1], 1u), std::max(required[2], 1u)};
  const Dim& set = function.required_cluster;
  return set.x ? Dim{set.x, std::max(set.y, 1u), std::max(set.z, 1u)} : Dim{0, 0, 0};
}

uint32_t dynamic_shared_limit(const FunctionEntry& function) {
  uint32_t fixed = function.kernel->function->shared_bytes;
  if (function.max_dynamic_shared) return *function.max_dynamic_shared;
  return fixed < kSharedPerBlock ? kSharedPerBlock - fixed : 0;
}

uint32_t resident_blocks(Context& context, const FunctionEntry& function, uint32_t threads,
                         size_t dynamic_shared) {
  if (threads == 0 || threads > kMaxThreads || dynamic_shared > kSharedOptin) return 0;
  return context.device().resident_blocks_per_multiprocessor(*function.kernel, threads,
                                                             static_cast<uint32_t>(dynamic_shared));
}

Status make_kernel_spec(Context& context, const LaunchRequest& request, KernelSpec& spec) {
  Runtime& runtime = Runtime::get();
  spec.function = runtime.modules().function(request.function);
  if (!spec.function) return request.function ? Status::InvalidResourceHandle : Status::InvalidDeviceFunction;
  if (Status status = runtime.modules().load(*spec.function, context); status != Status::Success)
    return status;
  const vgpu::Function& function = *spec.function->kernel->function;
  if (!function.unsupported.empty()) {
    runtime.writer().unsupported_kernel(
        fmt::format("kernel `{}` cannot run: {}", spec.function->name, function.unsupported));
    return Status::NotSupported;
  }
  // ptxas refuses it, when the program is built or, where it holds PTX alone, when the code is loaded.
  if (function.shared_bytes > kSharedPerBlock) return Status::InvalidPtx;
  spec.grid = request.grid;
  spec.block = request.block;
  spec.cooperative = request.cooperative;
  if (Status status = apply_attributes(request.attributes, spec); status != Status::Success) return status;
  if (Dim own = required_cluster(*spec.function); own.x) {
    if (count_of(spec.cluster) && std::memcmp(&own, &spec.cluster, sizeof own) != 0)
      return Status::InvalidClusterSize;
    spec.cluster = own;
  }
  if (Status status = check_shape(spec, request.shared_bytes); status != Status::Success) return status;
  if (!has_registers(spec)) return Status::LaunchOutOfResources;
  spec.shared_bytes = static_cast<uint32_t>(request.shared_bytes);
  if (spec.cooperative) {
    auto threads = static_cast<uint32_t>(count_of(spec.block));
    uint64_t resident = uint64_t{resident_blocks(context, *spec.function, threads, spec.shared_bytes)} *
                        context.device().options().multiprocessors;
    if (count_of(spec.grid) > resident) return Status::CooperativeLaunchTooLarge;
  }
  return pack_arguments(request, spec);
}

std::atomic<LaunchListener>& launch_listener() {
  static std::atomic<LaunchListener> listener{nullptr};
  return listener;
}

void name_memory(Context& context, const KernelSpec& spec) {
  const LaunchListener listener = launch_listener();
  if (!listener) return;
  std::vector<void*> bases;
  for (size_t at = 0; at + sizeof(vgpu::Address) <= spec.parameters.size(); at += sizeof(vgpu::Address)) {
    vgpu::Address address = 0;
    std::memcpy(&address, spec.parameters.data() + at, sizeof address);
    const auto allocation = context.memory().find(address);
    if (!allocation || !allocation->label.starts_with("cudaMalloc")) continue;
    void* base = reinterpret_cast<void*>(allocation->base);
    if (std::find(bases.begin(), bases.end(), base) == bases.end()) bases.push_back(base);
  }
  if (!bases.empty()) listener(bases.data(), static_cast<int>(bases.size()));
}

vgpu::GridWork grid_work(const KernelSpec& spec) {
  vgpu::LaunchConfig config;
  config.grid = dim3_of(spec.grid);
  config.block = dim3_of(spec.block);
  config.cluster = dim3_of(spec.cluster);
  config.dynamic_shared = spec.shared_bytes;
  config.cooperative = spec.cooperative;
  const auto early = spec.attributes.find(AttributeId::ProgrammaticSerialization);
  config.early = early != spec.attributes.end() && early->second.number != 0;
  config.origin = spec.origin;
  return {*spec.function->kernel, config, spec.parameters};
}

}  // namespace assay::cudart
