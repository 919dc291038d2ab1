// cuFunc*, cuKernel*, cuLaunch*, cuOccupancy*: kernels and launches.
#include <algorithm>
#include <optional>

#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

namespace {

constexpr int kLoaded = 1;

std::optional<int> value_of(const FunctionAttributes& found, KernelAttribute attribute) {
  switch (attribute) {
    case KernelAttribute::MaxThreads:
      return found.max_threads;
    case KernelAttribute::SharedBytes:
      return static_cast<int>(found.shared_bytes);
    case KernelAttribute::ConstBytes:
      return static_cast<int>(found.const_bytes);
    case KernelAttribute::LocalBytes:
      return static_cast<int>(found.local_bytes);
    case KernelAttribute::Registers:
      return found.registers;
    case KernelAttribute::PtxVersion:
      return found.ptx_version;
    case KernelAttribute::BinaryVersion:
      return found.binary_version;
    case KernelAttribute::CacheMode:
      return found.cache_mode;
    case KernelAttribute::MaxDynamicShared:
      return found.max_dynamic_shared;
    case KernelAttribute::Carveout:
      return found.carveout;
    case KernelAttribute::ClusterMustBeSet:
      return found.cluster_must_be_set;
    case KernelAttribute::ClusterWidth:
      return found.cluster_x;
    case KernelAttribute::ClusterHeight:
      return found.cluster_y;
    case KernelAttribute::ClusterDepth:
      return found.cluster_z;
    case KernelAttribute::NonPortableCluster:
      return found.nonportable_cluster;
    case KernelAttribute::ClusterPolicy:
      return found.cluster_policy;
  }
  return std::nullopt;
}

Status get_attribute(int* value, KernelAttribute attribute, FunctionEntry* function) {
  return in_context([&] {
    FunctionAttributes found;
    if (Status status = cudaFuncGetAttributes(&found, function); status != Status::Success) return status;
    const auto known = value_of(found, attribute);
    return known ? give(value, *known) : Status::InvalidValue;
  });
}

// The numbers of attributes that can be set are the same in both APIs.
Status set_attribute(FunctionEntry* function, KernelAttribute attribute, int value) {
  return in_context(
      [&] { return cudaFuncSetAttribute(function, static_cast<FunctionAttribute>(attribute), value); });
}

LaunchConfiguration widened(const DriverLaunchConfiguration& given) {
  return {given.grid,   given.block,      given.dynamic_shared,
          given.stream, given.attributes, given.attribute_count};
}

Status launch(const DriverLaunchConfiguration* given, StreamHandle* stream, FunctionEntry* function,
              void** parameters, void** extra) {
  return in_context([&] {
    if (parameters && extra) return Status::InvalidValue;
    LaunchConfiguration configuration = widened(*given);
    configuration.stream = stream;
    return assay_launch(&configuration, function, parameters, extra);
  });
}

Status launch_cooperative(DriverLaunchConfiguration configuration, FunctionEntry* function,
                          void** parameters) {
  LaunchAttribute cooperative{};
  cooperative.id = AttributeId::Cooperative;
  cooperative.value.number = 1;
  configuration.attributes = &cooperative;
  configuration.attribute_count = 1;
  return launch(&configuration, configuration.stream, function, parameters, nullptr);
}

}  // namespace

// ---- Kernels ----

DRIVER_API Status cuFuncGetAttribute(int* value, KernelAttribute attribute, FunctionEntry* function) {
  return get_attribute(value, attribute, function);
}
DRIVER_API Status cuKernelGetAttribute(int* value, KernelAttribute attribute, FunctionEntry* kernel,
                                       int device) {
  return device == 0 ? get_attribute(value, attribute, kernel) : Status::InvalidDevice;
}
DRIVER_API Status cuFuncSetAttribute(FunctionEntry* function, KernelAttribute attribute, int value) {
  return set_attribute(function, attribute, value);
}
DRIVER_API Status cuKernelSetAttribute(KernelAttribute attribute, int value, FunctionEntry* kernel,
                                       int device) {
  return device == 0 ? set_attribute(kernel, attribute, value) : Status::InvalidDevice;
}
FORWARD(cuFuncSetCacheConfig, (FunctionEntry * function, int config),
        cudaFuncSetCacheConfig(function, config))
FORWARD(cuKernelSetCacheConfig, (FunctionEntry * kernel, int config, int device),
        device == 0 ? cudaFuncSetCacheConfig(kernel, config) : Status::InvalidDevice)
FORWARD(cuFuncSetSharedMemConfig, (FunctionEntry * function, int config),
        cudaFuncSetSharedMemConfig(function, config))
FORWARD(cuFuncGetModule, (LibraryHandle * *module, FunctionEntry* function),
        assay_library_of(module, function))
FORWARD(cuKernelGetLibrary, (LibraryHandle * *library, FunctionEntry* kernel),
        assay_library_of(library, kernel))
FORWARD(cuKernelGetFunction, (FunctionEntry * *function, FunctionEntry* kernel),
        kernel ? give(function, kernel) : Status::InvalidResourceHandle)
FORWARD(cuFuncGetName, (const char** name, FunctionEntry* function), cudaFuncGetName(name, function))
FORWARD(cuKernelGetName, (const char** name, FunctionEntry* kernel), cudaFuncGetName(name, kernel))
FORWARD(cuFuncGetParamInfo, (FunctionEntry * function, size_t index, size_t* offset, size_t* size),
        cudaFuncGetParamInfo(function, index, offset, size))
FORWARD(cuKernelGetParamInfo, (FunctionEntry * kernel, size_t index, size_t* offset, size_t* size),
        cudaFuncGetParamInfo(kernel, index, offset, size))
DRIVER_API Status cuFuncLoad(FunctionEntry* function) {
  int threads = 0;
  return get_attribute(&threads, KernelAttribute::MaxThreads, function);
}
// A kernel is loaded with the first question about it.
DRIVER_API Status cuFuncIsLoaded(int* state, FunctionEntry* function) {
  const Status status = cuFuncLoad(function);
  return status == Status::Success ? give(state, kLoaded) : status;
}

// ---- Launches ----

#define LAUNCH_SHAPE                                                                            \
  FunctionEntry *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
      unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle *stream, void **parameters
#define SHAPE_ON(on_stream) \
  { {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, on_stream, nullptr, 0 }

DRIVER_API Status cuLaunchKernel(LAUNCH_SHAPE, void** extra) {
  const DriverLaunchConfiguration shape = SHAPE_ON(stream);
  return launch(&shape, stream, function, parameters, extra);
}
DRIVER_API Status cuLaunchKernel_ptsz(LAUNCH_SHAPE, void** extra) {
  const DriverLaunchConfiguration shape = SHAPE_ON(own_stream(stream));
  return launch(&shape, shape.stream, function, parameters, extra);
}
DRIVER_API Status cuLaunchCooperativeKernel(LAUNCH_SHAPE) {
  return launch_cooperative(SHAPE_ON(stream), function, parameters);
}
DRIVER_API Status cuLaunchCooperativeKernel_ptsz(LAUNCH_SHAPE) {
  return launch_cooperative(SHAPE_ON(own_stream(stream)), function, parameters);
}
DRIVER_API Status cuLaunchKernelEx(const DriverLaunchConfiguration* configuration, FunctionEntry* function,
                                   void** parameters, void** extra) {
  if (!configuration) return Status::InvalidValue;
  return launch(configuration, configuration->stream, function, parameters, extra);
}
DRIVER_API Status cuLaunchKernelEx_ptsz(const DriverLaunchConfiguration* configuration,
                                        FunctionEntry* function, void** parameters, void** extra) {
  if (!configuration) return Status::InvalidValue;
  return launch(configuration, own_stream(configuration->stream), function, parameters, extra);
}
FORWARD_STREAM(cuLaunchHostFunc, (StreamHandle * stream, HostFunction call, void* data),
               cudaLaunchHostFunc(stream, call, data))

// ---- Occupancy ----

FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (int* blocks, FunctionEntry* function, int threads, size_t dynamic_shared),
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic_shared))
FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* blocks, FunctionEntry* function, int threads, size_t dynamic_shared, unsigned flags),
        cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_shared,
                                                               flags))
FORWARD(cuOccupancyAvailableDynamicSMemPerBlock,
        (size_t * bytes, FunctionEntry* function, int blocks, int threads),
        cudaOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads))

namespace {

using SharedOfBlock = size_t (*)(int threads);

// The largest number of resident threads wins; of equal ones the largest block.
Status best_block(int* grid, int* block, FunctionEntry* function, SharedOfBlock shared_of,
                  size_t dynamic_shared, int limit, unsigned flags) {
  constexpr int kWarp = 32, kMultiprocessorCount = 16;
  FunctionAttributes attributes;
  if (!grid || !block) return Status::InvalidValue;
  if (Status status = cudaFuncGetAttributes(&attributes, function); status != Status::Success) return status;
  int multiprocessors = 0, most_threads = 0;
  (void)cudaDeviceGetAttribute(&multiprocessors, kMultiprocessorCount, 0);
  const int largest = limit > 0 ? std::min(limit, attributes.max_threads) : attributes.max_threads;
  *grid = *block = 0;
  for (int aligned = (largest + kWarp - 1) / kWarp * kWarp; aligned > 0; aligned -= kWarp) {
    const int threads = std::min(aligned, largest);
    int blocks = 0;
    if (Status status = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, function, threads, shared_of ? shared_of(threads) : dynamic_shared, flags);
        status != Status::Success)
      return status;
    if (blocks * threads <= most_threads) continue;
    most_threads = blocks * threads;
    *block = threads;
    *grid = blocks * multiprocessors;
  }
  return Status::Success;
}

}  // namespace

FORWARD(cuOccupancyMaxPotentialBlockSize,
        (int* grid, int* block, FunctionEntry* function, SharedOfBlock shared_of, size_t dynamic_shared,
         int limit),
        best_block(grid, block, function, shared_of, dynamic_shared, limit, 0))
FORWARD(cuOccupancyMaxPotentialBlockSizeWithFlags,
        (int* grid, int* block, FunctionEntry* function, SharedOfBlock shared_of, size_t dynamic_shared,
         int limit, unsigned flags),
        best_block(grid, block, function, shared_of, dynamic_shared, limit, flags))

DRIVER_API Status cuOccupancyMaxPotentialClusterSize(int* size, FunctionEntry* function,
                                                     const DriverLaunchConfiguration* given) {
  return in_context([&] {
    if (!given) return Status::InvalidValue;
    const auto configuration = widened(*given);
    return cudaOccupancyMaxPotentialClusterSize(size, function, &configuration);
  });
}
DRIVER_API Status cuOccupancyMaxActiveClusters(int* clusters, FunctionEntry* function,
                                               const DriverLaunchConfiguration* given) {
  return in_context([&] {
    if (!given) return Status::InvalidValue;
    const auto configuration = widened(*given);
    return cudaOccupancyMaxActiveClusters(clusters, function, &configuration);
  });
}
