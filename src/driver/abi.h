// The binary interface of the CUDA 13 driver: numbers and layouts that the runtime does not have, under our own
// names. Where both have one, as for streams, events, graphs and status codes, it is the runtime's (cudart/abi.h).
//
// Device pointers are 64-bit integers in the driver API. They are declared as void* here: to the binary interface it is
// the same.
#pragma once

#include "cudart/abi.h"

namespace assay::driver {

enum class MemoryType : int { Host = 1, Device = 2, Array = 3, Unified = 4 };

// One side of a copy of two or three dimensions.
struct CopySide2D {
  size_t x, y;
  MemoryType type;
  void *host, *device, *array;
  size_t pitch;
};
struct DriverCopy2D {  // CUDA_MEMCPY2D
  CopySide2D from, to;
  size_t width, height;
};
struct CopySide3D {
  size_t x, y, z, mipmap_level;
  MemoryType type;
  void *host, *device, *array;
  void* context;  // CUDA_MEMCPY3D: reserved
  size_t pitch, height;
};
struct DriverCopy3D {  // CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER
  CopySide3D from, to;
  size_t width, height, depth;
};

struct DriverLaunchConfiguration {
  cudart::Dim grid, block;
  unsigned dynamic_shared;
  cudart::StreamHandle* stream;
  cudart::LaunchAttribute* attributes;
  unsigned attribute_count;
};

enum class PointerAttribute : int {
  Context = 1,
  MemoryType,
  DevicePointer,
  HostPointer,
  P2PTokens,
  SyncMemops,
  BufferId,
  IsManaged,
  DeviceOrdinal,
  IsLegacyIpcCapable,
  RangeStart,
  RangeSize,
  Mapped,
  AllowedHandleTypes,
  IsRdmaCapable,
  AccessFlags,
  PoolHandle,
  MappingSize,
  MappingBase,
  BlockId,
  IsHardwareDecompressCapable,
};

enum class KernelAttribute : int {
  MaxThreads,
  SharedBytes,
  ConstBytes,
  LocalBytes,
  Registers,
  PtxVersion,
  BinaryVersion,
  CacheMode,
  MaxDynamicShared,
  Carveout,
  ClusterMustBeSet,
  ClusterWidth,
  ClusterHeight,
  ClusterDepth,
  NonPortableCluster,
  ClusterPolicy,
};

// Of a module's or a linker's options, those that ask for an answer.
enum class JitOption : int { WallTime = 2, InfoLog = 3, InfoLogBytes = 4, ErrorLog = 5, ErrorLogBytes = 6 };
enum class JitInput : int { Cubin, Ptx, Fatbinary, Object, Library, Nvvm };

enum class ProcAddressResult : int { Found, NotFound, VersionNotSufficient };

struct LegacyProperties {  // CUdevprop
  int max_threads, max_block[3], max_grid[3], shared_per_block, const_bytes, warp_size, max_pitch;
  int registers_per_block, clock_khz, texture_alignment;
};

struct DriverKernelNodeParams {  // CUDA_KERNEL_NODE_PARAMS_v2 and _v3; _v1 is the runtime's
  cudart::KernelNodeParams plain;
  cudart::FunctionEntry* kernel;
  void* context;
};
struct DriverGraphNodeParams {
  cudart::NodeKind kind;
  int reserved0[3];
  union {
    long long reserved1[29];
    DriverKernelNodeParams kernel;
    struct {
      int flags, reserved;
      void* context;
      DriverCopy3D copy;
    } memcpy;
    struct {
      cudart::MemsetParams plain;
      void* context;
    } memset;
    cudart::HostNodeParams host;
    cudart::ChildGraphParams child;
    cudart::EventHandle* event;
    cudart::AllocNodeParams alloc;
    void* free;
  };
  long long reserved2;
};

}  // namespace assay::driver
