// Where the host finds memory that it shares with a watched device.
//
// A range of the address space that the system gives to nobody who does not ask for it: it lies above what grows
// upwards from a third of the address space and below position-independent programs. So whether an address is
// of such memory shows in its upper half alone, in this process and in every program that it starts.
#pragma once

#include <cstdint>

namespace assay::vgpu {

inline constexpr uint64_t kHostRange = 0x3d00'0000'0000;
inline constexpr uint64_t kHostRangeEnd = 0x4100'0000'0000;

inline constexpr bool is_in_host_range(uint64_t address) {
  return address >= kHostRange && address < kHostRangeEnd;
}

}  // namespace assay::vgpu
