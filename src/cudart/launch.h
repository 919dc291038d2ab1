// From a launch as the program asks for it to a grid, or to the error that NVIDIA's runtime gives.
#pragma once

#include <atomic>
#include <span>

#include "cudart/graph.h"

namespace assay::cudart {

struct LaunchRequest {
  const void* function = nullptr;  // host function or handle
  Dim grid{1, 1, 1}, block{1, 1, 1};
  size_t shared_bytes = 0;
  std::span<const LaunchAttribute> attributes;
  bool cooperative = false;
  void** arguments = nullptr;
  void** extra = nullptr;  // cudaGraphAddKernelNode, cuLaunchKernel: a packed buffer instead
};

// Checks a launch against the limits of the device and of the kernel, and packs its parameters.
Status make_kernel_spec(Context& context, const LaunchRequest& request, KernelSpec& spec);
// The function that names the memory that a launch uses (assay_on_launch); may be null.
using LaunchListener = void (*)(void* const* bases, int count);
std::atomic<LaunchListener>& launch_listener();
// Tells it about memory without a name among the arguments of a launch.
void name_memory(Context& context, const KernelSpec& spec);

vgpu::GridWork grid_work(const KernelSpec& spec);

// Resident blocks of a kernel on one multiprocessor.
uint32_t resident_blocks(Context& context, const FunctionEntry& function, uint32_t threads,
                         size_t dynamic_shared);
// Dynamic shared memory that a launch of the kernel may ask for.
uint32_t dynamic_shared_limit(const FunctionEntry& function);
Dim required_cluster(const FunctionEntry& function);

}  // namespace assay::cudart
