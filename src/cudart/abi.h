// The binary interface of the CUDA 13 runtime: numbers and layouts, under our own names.
//
// Nothing of NVIDIA's is needed to build the library. Where the toolkit is installed, a test
// compares every layout and number here with its headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::cudart {

enum class Status : int {
#define STATUS(name, number, official, text) name = (number),
#include "cudart/status.def"
};

// Handles are opaque to the program. Streams have three reserved values.
struct StreamHandle;
struct EventHandle;
struct FunctionEntry;  // cudaFunction_t, cudaKernel_t
struct LibraryHandle;
struct GraphHandle;
struct GraphNode;
struct GraphExec;
struct PoolHandle;
struct UserObject;
inline StreamHandle* const kLegacyStream = reinterpret_cast<StreamHandle*>(1);
inline StreamHandle* const kPerThreadStream = reinterpret_cast<StreamHandle*>(2);

struct Dim {
  uint32_t x, y, z;
};
struct PitchedPointer {
  void* pointer;
  size_t pitch, width, height;
};
struct Extent {
  size_t width, height, depth;
};
struct Position {
  size_t x, y, z;
};

enum class CopyKind : int { HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default };

struct Copy3D {
  void* from_array;
  Position from_position;
  PitchedPointer from;
  void* to_array;
  Position to_position;
  PitchedPointer to;
  Extent extent;
  CopyKind kind;
};
struct PeerCopy3D {
  void* from_array;
  Position from_position;
  PitchedPointer from;
  int from_device;
  void* to_array;
  Position to_position;
  PitchedPointer to;
  int to_device;
  Extent extent;
};

enum class PointerKind : int { Unregistered, Host, Device, Managed };
struct PointerAttributes {
  PointerKind kind;
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

struct FunctionAttributes {
  size_t shared_bytes, const_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int cluster_must_be_set, cluster_x, cluster_y, cluster_z, cluster_policy, nonportable_cluster;
  int reserved[16];
};
enum class FunctionAttribute : int {
  MaxDynamicShared = 8,
  Carveout = 9,
  ClusterMustBeSet = 10,
  ClusterWidth = 11,
  ClusterHeight = 12,
  ClusterDepth = 13,
  NonPortableCluster = 14,
  ClusterPolicy = 15,
};

enum class Limit : int {
  StackSize,
  PrintfFifo,
  MallocHeap,
  SyncDepth,
  PendingLaunches,
  L2Fetch,
  PersistingL2,
  SharedPerBlock
};

struct MemoryLocation {
  int kind;  // 1 device, 2 host, 3 and 4 a host's NUMA node
  int id;
};
struct AccessDescription {
  MemoryLocation location;
  int flags;
};
struct PoolProperties {
  int allocation_kind, handle_kinds;
  MemoryLocation location;
  void* security;
  size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};
enum class PoolAttribute : int {
  ReuseFollowEvents = 1,
  ReuseOpportunistic,
  ReuseInternal,
  ReleaseThreshold,
  ReservedCurrent,
  ReservedHigh,
  UsedCurrent,
  UsedHigh,
};

enum class AttributeId : int {
  Ignore = 0,
  AccessPolicyWindow = 1,
  Cooperative = 2,
  SynchronizationPolicy = 3,
  ClusterDimension = 4,
  ClusterPolicy = 5,
  ProgrammaticSerialization = 6,
  ProgrammaticEvent = 7,
  Priority = 8,
  MemSyncDomainMap = 9,
  MemSyncDomain = 10,
  PreferredCluster = 11,
  LaunchCompletionEvent = 12,
  DeviceUpdatable = 13,
  Carveout = 14,
};
union AttributeValue {
  char pad[64];
  int number;  // cooperative, priority, policies
  Dim dim;     // cluster dimensions
  struct {
    EventHandle* event;
    int flags;
    int at_block_start;
  } event;
};
struct LaunchAttribute {
  AttributeId id;
  char pad[4];
  AttributeValue value;
};
struct LaunchConfiguration {
  Dim grid, block;
  size_t dynamic_shared;
  StreamHandle* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(StreamHandle*, Status, void*);

struct KernelNodeParams {
  void* function;
  Dim grid, block;
  unsigned shared_bytes;
  void** parameters;
  void** extra;
};
struct MemsetParams {
  void* to;
  size_t pitch;
  unsigned value, element_size;
  size_t width, height;
};
struct HostNodeParams {
  HostFunction call;
  void* data;
};
struct AllocNodeParams {
  PoolProperties pool;
  const AccessDescription* access;
  size_t access_count;
  size_t bytes;
  void* pointer;
};
struct ChildGraphParams {
  GraphHandle* graph;
  int ownership;
};
enum class NodeKind : int {
  Kernel = 0,
  Memcpy = 1,
  Memset = 2,
  Host = 3,
  Graph = 4,
  Empty = 5,
  WaitEvent = 6,
  RecordEvent = 7,
  SemaphoreSignal = 8,
  SemaphoreWait = 9,
  Alloc = 10,
  Free = 11,
  Conditional = 13,
};
struct GraphNodeParams {
  NodeKind kind;
  int reserved0[3];
  union {
    long long reserved1[29];
    KernelNodeParams kernel;
    struct {
      int flags;
      int reserved[3];
      Copy3D copy;
    } memcpy;
    MemsetParams memset;
    HostNodeParams host;
    ChildGraphParams child;
    EventHandle* event;
    AllocNodeParams alloc;
    void* free;
  };
  long long reserved2;
};
struct EdgeData {
  unsigned char from_port, to_port, kind, reserved[5];
};
struct InstantiateParams {
  unsigned long long flags;
  StreamHandle* upload_stream;
  GraphNode* error_node;
  int result;
};
enum class UpdateResult : int {
  Success,
  Error,
  TopologyChanged,
  NodeKindChanged,
  FunctionChanged,
  ParametersChanged,
  NotSupported,
};
struct UpdateResultInfo {
  UpdateResult result;
  GraphNode* error_node;
  GraphNode* error_from_node;
};

enum class CaptureStatus : int { None, Active, Invalidated };
enum class CaptureMode : int { Global, ThreadLocal, Relaxed };

struct ChannelFormat {
  int x, y, z, w, kind;
};

struct DeviceProperties {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_mask;
  size_t global_bytes, shared_per_block;
  int registers_per_block, warp_size;
  size_t max_pitch;
  int max_threads_per_block, max_block[3], max_grid[3];
  size_t const_bytes;
  int major, minor;
  size_t texture_alignment, texture_pitch_alignment;
  int multiprocessors, integrated, can_map_host;
  int texture_1d, texture_1d_mipmap, texture_2d[2], texture_2d_mipmap[2], texture_2d_linear[3];
  int texture_2d_gather[2], texture_3d[3], texture_3d_alt[3], texture_cubemap, texture_1d_layered[2];
  int texture_2d_layered[3], texture_cubemap_layered[2];
  int surface_1d, surface_2d[2], surface_3d[3], surface_1d_layered[2], surface_2d_layered[3];
  int surface_cubemap, surface_cubemap_layered[2];
  size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing;
  int memory_bus_width, l2_bytes, persisting_l2_bytes, threads_per_multiprocessor, stream_priorities;
  int global_l1, local_l1;
  size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory, multi_gpu_board, multi_gpu_group, host_native_atomics;
  int pageable_access, concurrent_managed, compute_preemption, host_pointer_for_registered, cooperative;
  size_t shared_per_block_optin;
  int pageable_uses_host_tables, direct_managed, blocks_per_multiprocessor, access_policy_window;
  size_t reserved_shared_per_block;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, rdma;
  unsigned rdma_flush;
  int rdma_ordering;
  unsigned pool_handle_kinds;
  int deferred_arrays, ipc_events, cluster_launch, unified_function_pointers, numa_config, numa_id, mps;
  int host_numa_id;
  unsigned pci_device_id, pci_subsystem_id;
  int host_numa_multinode;
  int reserved[56];
};

// What nvcc puts around a fatbinary.
struct FatbinaryWrapper {
  int magic;
  int version;
  const void* data;
  void* prelinked;  // version 2: a null-terminated array of fatbinaries
};
inline constexpr int kWrapperMagic = 0x466243b1;

}  // namespace assay::cudart
