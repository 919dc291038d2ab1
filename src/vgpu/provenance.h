// Which pointer of a kernel's parameters an address was computed from, and so which allocation it belongs in.
//
// An index that is wrong by gigabytes may land in another live allocation, and then nothing is wrong with the address
// itself. But the code says where it came from: a parameter, with offsets added on the way. Where exactly one pointer
// among the parameters reaches an access, and only through additions and subtractions (a loop may go by the distance
// between two pointers, which cancels out), the access belongs in the allocation that this pointer points into. Where
// the way cannot be followed (a choice between pointers, masked bits, pointers from memory or from a caller), nothing
// is claimed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vgpu/code.h"
#include "vgpu/memory.h"

namespace assay::vgpu {

// `pointers`: where in the parameters (in bytes) those are that point somewhere.
std::vector<SiteOrigin> site_origins(const Function& kernel, std::span<const uint32_t> pointers);

// Where the accesses of one instruction belong in this launch.
struct SiteBound {
  uint32_t source = 0;
  Address low = 0, high = ~Address{0};
  Address pointer = 0;  // as it was passed
};
struct SiteBounds {
  std::vector<SiteBound> bounds;
  std::vector<uint32_t> of_site;  // 1 + index into `bounds`; 0: not known. Empty: nothing is known

  bool allows(uint32_t site, Address address) const {
    if (site >= of_site.size() || of_site[site] == 0) return true;
    const SiteBound& bound = bounds[of_site[site] - 1];
    return address >= bound.low && address < bound.high;
  }
  const SiteBound* of(const Inst& inst) const;
};
SiteBounds bounds_of(const Function& kernel, uint32_t sites, std::span<const std::byte> parameters,
                     const Memory& memory);

}  // namespace assay::vgpu
