// Our layouts and numbers against the toolkit's own header. Built only where that is installed.
#include "driver/abi.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace assay::driver {
namespace {

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, field, theirs, their_field) \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field))

SAME_SIZE(DriverCopy2D, CUDA_MEMCPY2D);
SAME_FIELD(DriverCopy2D, from.pitch, CUDA_MEMCPY2D, srcPitch);
SAME_FIELD(DriverCopy2D, to.device, CUDA_MEMCPY2D, dstDevice);
SAME_FIELD(DriverCopy2D, height, CUDA_MEMCPY2D, Height);
SAME_SIZE(DriverCopy3D, CUDA_MEMCPY3D);
SAME_SIZE(DriverCopy3D, CUDA_MEMCPY3D_PEER);
SAME_FIELD(DriverCopy3D, from.host, CUDA_MEMCPY3D, srcHost);
SAME_FIELD(DriverCopy3D, to.height, CUDA_MEMCPY3D, dstHeight);
SAME_FIELD(DriverCopy3D, depth, CUDA_MEMCPY3D, Depth);
SAME_SIZE(DriverLaunchConfiguration, CUlaunchConfig);
SAME_FIELD(DriverLaunchConfiguration, stream, CUlaunchConfig, hStream);
SAME_FIELD(DriverLaunchConfiguration, attribute_count, CUlaunchConfig, numAttrs);
SAME_SIZE(cudart::LaunchAttribute, CUlaunchAttribute);
SAME_SIZE(LegacyProperties, CUdevprop);
SAME_FIELD(LegacyProperties, texture_alignment, CUdevprop, textureAlign);
SAME_SIZE(DriverKernelNodeParams, CUDA_KERNEL_NODE_PARAMS);
SAME_FIELD(DriverKernelNodeParams, plain.extra, CUDA_KERNEL_NODE_PARAMS, extra);
SAME_FIELD(DriverKernelNodeParams, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SAME_SIZE(cudart::KernelNodeParams, CUDA_KERNEL_NODE_PARAMS_v1);
SAME_SIZE(cudart::MemsetParams, CUDA_MEMSET_NODE_PARAMS);
SAME_SIZE(cudart::HostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_SIZE(cudart::AllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_SIZE(cudart::PoolProperties, CUmemPoolProps);
SAME_SIZE(cudart::InstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_SIZE(cudart::UpdateResultInfo, CUgraphExecUpdateResultInfo);
SAME_SIZE(DriverGraphNodeParams, CUgraphNodeParams);
SAME_FIELD(DriverGraphNodeParams, memcpy.copy, CUgraphNodeParams, memcpy.copyParams);
SAME_FIELD(DriverGraphNodeParams, child, CUgraphNodeParams, graph);

static_assert(static_cast<int>(MemoryType::Unified) == CU_MEMORYTYPE_UNIFIED);
static_assert(static_cast<int>(PointerAttribute::IsManaged) == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(static_cast<int>(PointerAttribute::RangeSize) == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(static_cast<int>(PointerAttribute::IsHardwareDecompressCapable) ==
              CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE);
static_assert(static_cast<int>(KernelAttribute::MaxDynamicShared) ==
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(static_cast<int>(KernelAttribute::ClusterPolicy) + 1 == CU_FUNC_ATTRIBUTE_MAX);
static_assert(static_cast<int>(JitOption::ErrorLogBytes) == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(static_cast<int>(JitOption::WallTime) == CU_JIT_WALL_TIME);
static_assert(static_cast<int>(JitInput::Library) == CU_JIT_INPUT_LIBRARY);
static_assert(static_cast<int>(ProcAddressResult::VersionNotSufficient) ==
              CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

TEST(Abi, ResultsHaveTheToolkitsNumbers) {
#define RESULT(number, name) EXPECT_EQ(static_cast<int>(name), number) << #name;
#include "driver/results.def"
}

}  // namespace
}  // namespace assay::driver
