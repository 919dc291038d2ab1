// The GPU that the virtual device presents itself as: an H200 with the sizes of one of base/gpus.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/gpus.h"
#include "cudart/abi.h"

namespace assay::cudart {

inline constexpr unsigned kArchitecture = 90;
inline constexpr int kDriverVersion = 13000;
inline constexpr int kRuntimeVersion = 13000;

inline constexpr uint32_t kMaxThreads = 1024;
inline constexpr uint32_t kMaxBlock[3] = {1024, 1024, 64};
inline constexpr uint32_t kMaxGrid[3] = {2147483647, 65535, 65535};
inline constexpr uint32_t kSharedPerBlock = 48 * 1024;
inline constexpr uint32_t kSharedOptin = 227 * 1024;
inline constexpr uint32_t kSharedPerMultiprocessor = 228 * 1024;
inline constexpr uint32_t kReservedShared = 1024;
inline constexpr uint32_t kPortableCluster = 8;
inline constexpr uint32_t kLargestCluster = 16;
inline constexpr uint64_t kTexturePitch = 512;  // of cudaMallocPitch

DeviceProperties device_properties(const Gpu& gpu);
std::optional<int> device_attribute(const Gpu& gpu, int attribute);

}  // namespace assay::cudart
