// All entry points by name, for cuGetProcAddress.
#pragma once

#include <span>
#include <string_view>

namespace assay::driver {

struct Entry {
  std::string_view symbol;  // as the library exports it: cuMemAlloc_v2
  std::string_view name;    // as programs write it: cuMemAlloc
  int since;                // the version of CUDA in which it got this meaning: 3020
  void (*address)();
};

std::span<const Entry> entries();

}  // namespace assay::driver
