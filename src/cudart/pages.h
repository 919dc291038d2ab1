// Pages of this process: whole ones of a range, and what may be done with them.
#pragma once

#include <sys/mman.h>

#include "vgpu/memory.h"

namespace assay::cudart {

inline constexpr vgpu::Address kPage = 4096;

inline vgpu::Address page_of(vgpu::Address address) {
  return address & ~(kPage - 1);
}
inline vgpu::Address next_page(vgpu::Address address) {
  return page_of(address + kPage - 1);
}

// False: the system has no more room for pages that differ from their neighbours.
inline bool protect(vgpu::Address low, vgpu::Address high, int protection) {
  return mprotect(reinterpret_cast<void*>(low), high - low, protection) == 0;
}
inline constexpr int kOpen = PROT_READ | PROT_WRITE;

}  // namespace assay::cudart
