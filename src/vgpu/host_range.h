// The address range of memory that the host shares with a device under checks.
//
// The system places nothing in this range unless asked to: it lies above the region that grows upwards from
// a third of the address space, and below position-independent programs. So the upper half of an address is
// enough to tell whether it belongs to such memory, in this process and in every program that it starts.
#pragma once

#include <cstdint>

namespace assay::vgpu {

inline constexpr uint64_t kHostRange = 0x3d00'0000'0000;
inline constexpr uint64_t kHostRangeEnd = 0x4100'0000'0000;

inline constexpr bool is_in_host_range(uint64_t address) {
  return address >= kHostRange && address < kHostRangeEnd;
}

}  // namespace assay::vgpu
