// Instruction forms as kernels: d[i] = form(a[i], b[i], c[i]), run through the whole engine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "golden/golden.h"
#include "vgpu/device.h"

namespace assay::vgpu::testing {

// The PTX of one form, as kernel k<index>: over columns of operands, or one warp's product a block with
// operands and results as [case][lane][register].
std::string elementwise_kernel(size_t index, const golden::Record& record);
std::string mma_kernel(size_t index, const golden::Record& record);

// The forms of a family, loaded in modules of moderate size.
class Forms {
 public:
  Forms(const std::vector<golden::Record>& records, std::string (*kernel)(size_t, const golden::Record&),
        bool watch = false);

  // Runs form `index` on columns of operands; the fault's message, or "".
  std::string run(size_t index, const std::vector<std::vector<std::byte>>& operands, uint64_t count,
                  Dim3 grid, Dim3 block, std::vector<std::byte>& result);

 private:
  Device device_;
  std::map<size_t, Kernel> kernels_;
};

std::vector<std::byte> column(const std::vector<uint64_t>& values, int bits);
uint64_t entry(const std::vector<std::byte>& bytes, size_t i, int bits);

// What disagrees with the record's results, or "".
std::string check_stored(Forms& forms, size_t index, const golden::Record& record);

}  // namespace assay::vgpu::testing
