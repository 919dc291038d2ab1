// Our layouts and numbers against the toolkit's own headers. Built only where those are installed.
#include "cudart/abi.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cudart/properties.h"
#include "subject/worker/runtime_calls.h"

namespace assay::cudart {
namespace {

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, field, theirs, their_field)                     \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(ours::field) == sizeof(theirs::their_field))

SAME_SIZE(DeviceProperties, cudaDeviceProp);
SAME_FIELD(DeviceProperties, global_bytes, cudaDeviceProp, totalGlobalMem);
SAME_FIELD(DeviceProperties, max_grid, cudaDeviceProp, maxGridSize);
SAME_FIELD(DeviceProperties, multiprocessors, cudaDeviceProp, multiProcessorCount);
SAME_FIELD(DeviceProperties, surface_alignment, cudaDeviceProp, surfaceAlignment);
SAME_FIELD(DeviceProperties, shared_per_multiprocessor, cudaDeviceProp, sharedMemPerMultiprocessor);
SAME_FIELD(DeviceProperties, shared_per_block_optin, cudaDeviceProp, sharedMemPerBlockOptin);
SAME_FIELD(DeviceProperties, reserved_shared_per_block, cudaDeviceProp, reservedSharedMemPerBlock);
SAME_FIELD(DeviceProperties, cluster_launch, cudaDeviceProp, clusterLaunch);
SAME_FIELD(DeviceProperties, host_numa_multinode, cudaDeviceProp, hostNumaMultinodeIpcSupported);
static_assert(worker::kTotalGlobalMemOffset == offsetof(cudaDeviceProp, totalGlobalMem));
static_assert(worker::kMultiprocessorCountOffset == offsetof(cudaDeviceProp, multiProcessorCount));
SAME_SIZE(Copy3D, cudaMemcpy3DParms);
SAME_FIELD(Copy3D, to, cudaMemcpy3DParms, dstPtr);
SAME_FIELD(Copy3D, kind, cudaMemcpy3DParms, kind);
SAME_SIZE(PeerCopy3D, cudaMemcpy3DPeerParms);
SAME_FIELD(PeerCopy3D, extent, cudaMemcpy3DPeerParms, extent);
SAME_SIZE(PitchedPointer, cudaPitchedPtr);
SAME_SIZE(Extent, cudaExtent);
SAME_SIZE(PointerAttributes, cudaPointerAttributes);
SAME_FIELD(PointerAttributes, host_pointer, cudaPointerAttributes, hostPointer);
SAME_SIZE(FunctionAttributes, cudaFuncAttributes);
SAME_FIELD(FunctionAttributes, registers, cudaFuncAttributes, numRegs);
SAME_FIELD(FunctionAttributes, nonportable_cluster, cudaFuncAttributes, nonPortableClusterSizeAllowed);
SAME_SIZE(PoolProperties, cudaMemPoolProps);
SAME_FIELD(PoolProperties, max_size, cudaMemPoolProps, maxSize);
SAME_SIZE(AttributeValue, cudaLaunchAttributeValue);
SAME_SIZE(LaunchAttribute, cudaLaunchAttribute);
SAME_FIELD(LaunchAttribute, value, cudaLaunchAttribute, val);
SAME_SIZE(LaunchConfiguration, cudaLaunchConfig_t);
SAME_FIELD(LaunchConfiguration, attribute_count, cudaLaunchConfig_t, numAttrs);
SAME_SIZE(KernelNodeParams, cudaKernelNodeParams);
SAME_FIELD(KernelNodeParams, parameters, cudaKernelNodeParams, kernelParams);
SAME_SIZE(MemsetParams, cudaMemsetParams);
SAME_FIELD(MemsetParams, height, cudaMemsetParams, height);
SAME_SIZE(HostNodeParams, cudaHostNodeParams);
SAME_SIZE(AllocNodeParams, cudaMemAllocNodeParams);
SAME_FIELD(AllocNodeParams, pointer, cudaMemAllocNodeParams, dptr);
SAME_SIZE(GraphNodeParams, cudaGraphNodeParams);
SAME_FIELD(GraphNodeParams, kernel, cudaGraphNodeParams, kernel);
SAME_FIELD(GraphNodeParams, memcpy, cudaGraphNodeParams, memcpy);
SAME_SIZE(EdgeData, cudaGraphEdgeData);
SAME_SIZE(InstantiateParams, cudaGraphInstantiateParams);
SAME_SIZE(UpdateResultInfo, cudaGraphExecUpdateResultInfo);
SAME_SIZE(ChannelFormat, cudaChannelFormatDesc);
SAME_SIZE(Dim, dim3);

static_assert(static_cast<int>(AttributeId::ClusterDimension) == cudaLaunchAttributeClusterDimension);
static_assert(static_cast<int>(AttributeId::ProgrammaticSerialization) ==
              cudaLaunchAttributeProgrammaticStreamSerialization);
static_assert(static_cast<int>(NodeKind::Alloc) == cudaGraphNodeTypeMemAlloc);
static_assert(static_cast<int>(NodeKind::Conditional) == cudaGraphNodeTypeConditional);
static_assert(static_cast<int>(FunctionAttribute::NonPortableCluster) ==
              cudaFuncAttributeNonPortableClusterSizeAllowed);
static_assert(static_cast<int>(PoolAttribute::UsedHigh) == cudaMemPoolAttrUsedMemHigh);
static_assert(static_cast<int>(Limit::PersistingL2) == cudaLimitPersistingL2CacheSize);
static_assert(static_cast<int>(UpdateResult::NotSupported) == cudaGraphExecUpdateErrorNotSupported);

TEST(Abi, PropertiesReadBackThroughTheToolkitsLayout) {
  DeviceProperties ours = device_properties(kGpus[0]);
  cudaDeviceProp theirs;
  std::memcpy(&theirs, &ours, sizeof theirs);
  EXPECT_STREQ(theirs.name, "NVIDIA H200");
  EXPECT_EQ(theirs.totalGlobalMem, 150109880320u);
  EXPECT_EQ(theirs.major, 9);
  EXPECT_EQ(theirs.minor, 0);
  EXPECT_EQ(theirs.multiProcessorCount, 132);
  EXPECT_EQ(theirs.maxGridSize[0], 2147483647);
  EXPECT_EQ(theirs.maxThreadsDim[2], 64);
  EXPECT_EQ(theirs.sharedMemPerBlockOptin, 232448u);
  EXPECT_EQ(theirs.memoryBusWidth, 6016);
  EXPECT_EQ(theirs.l2CacheSize, 62914560);
  EXPECT_EQ(theirs.cooperativeLaunch, 1);
  EXPECT_EQ(theirs.clusterLaunch, 1);
  EXPECT_EQ(theirs.gpuPciDeviceID, 590680286u);
}

TEST(Abi, EveryGpuGivesOneAnswer) {
  for (const Gpu& gpu : kGpus) {
    const DeviceProperties ours = device_properties(gpu);
    cudaDeviceProp theirs;
    std::memcpy(&theirs, &ours, sizeof theirs);
    EXPECT_EQ(theirs.name, gpu.name);
    EXPECT_EQ(theirs.totalGlobalMem, gpu.bytes);
    EXPECT_EQ(theirs.major, 9);
    EXPECT_EQ(device_attribute(gpu, cudaDevAttrMultiProcessorCount), theirs.multiProcessorCount);
    EXPECT_EQ(device_attribute(gpu, cudaDevAttrL2CacheSize), theirs.l2CacheSize);
    EXPECT_EQ(device_attribute(gpu, cudaDevAttrMaxPersistingL2CacheSize), theirs.persistingL2CacheMaxSize);
    EXPECT_EQ(device_attribute(gpu, cudaDevAttrGlobalMemoryBusWidth), theirs.memoryBusWidth);
    EXPECT_EQ(device_attribute(gpu, cudaDevAttrPciBusId), theirs.pciBusID);
    EXPECT_EQ(device_attribute(gpu, cudaDevAttrClockRate), gpu.clock_khz);
    EXPECT_EQ(theirs.maxThreadsPerMultiProcessor, 2048);
    EXPECT_EQ(gpu_named(gpu.id), &gpu);
  }
}

}  // namespace
}  // namespace assay::cudart
