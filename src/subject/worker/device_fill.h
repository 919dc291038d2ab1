// Fills memory of a real GPU with values made by position (base/generated_values.h), on the GPU: a tensor of many gigabytes
// takes as long as writing it. The virtual device makes them as they are touched instead.
#pragma once

#include <cstddef>
#include <vector>

#include "base/generated_values.h"
#include "subject/worker/runtime.h"

namespace assay::worker {

class DeviceFill {
 public:
  explicit DeviceFill(const Runtime& runtime) : runtime_(runtime) {}
  // Writes whole elements, as many as fit into these bytes, to device memory; of a pattern (a table of one element), all
  // bytes, wherever they begin. Throws Failed.
  void fill(std::byte* to, uint64_t bytes, const GeneratedValues& values);

 private:
  void repeat(std::byte* to, uint64_t bytes, const std::vector<std::byte>& pattern) const;
  void pick(std::byte* to, uint64_t count, const GeneratedValues& values);
  void rise(std::byte* to, uint64_t count, const GeneratedValues& values) const;

  const Runtime& runtime_;
  void* kernel_ = nullptr;  // loaded at its first use
};

}  // namespace assay::worker
