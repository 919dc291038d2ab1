// The part of the CUDA runtime that the monitor uses, as the application has it.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace assay::watch {

using Stream = void*;
using Event = void*;

struct Runtime {
  int (*cudaGetDevice)(int*) = nullptr;
  int (*cudaSetDevice)(int) = nullptr;
  int (*cudaMalloc)(void**, std::size_t) = nullptr;
  int (*cudaFree)(void*) = nullptr;
  int (*cudaMemcpyAsync)(void*, const void*, std::size_t, int, Stream) = nullptr;
  int (*cudaEventCreateWithFlags)(Event*, unsigned) = nullptr;
  int (*cudaEventRecord)(Event, Stream) = nullptr;
  int (*cudaEventQuery)(Event) = nullptr;
  int (*cudaEventSynchronize)(Event) = nullptr;
  int (*cudaEventDestroy)(Event) = nullptr;
  int (*cudaStreamCreateWithFlags)(Stream*, unsigned) = nullptr;
  int (*cudaStreamSynchronize)(Stream) = nullptr;
  int (*cudaStreamDestroy)(Stream) = nullptr;
  int (*cudaStreamIsCapturing)(Stream, int*) = nullptr;
  int (*cudaGraphLaunch)(void*, Stream) = nullptr;
  int (*cudaGetLastError)() = nullptr;
  bool is_virtual = false;

  // The runtime that the process has loaded, else the one that it would load.
  static Result<Runtime> find();

  // Of a device: its name, and its UUID as nvidia-smi writes it.
  struct Device {
    std::string name, uuid;
  };
  Device device(int index) const;

 private:
  int (*cudaGetDeviceProperties)(void*, int) = nullptr;
};

inline constexpr int kToHost = 2, kOnDevice = 3;  // cudaMemcpyKind
inline constexpr int kNotReady = 600;             // cudaErrorNotReady
inline constexpr unsigned kEventDisableTiming = 2, kStreamNonBlocking = 1;

}  // namespace assay::watch
