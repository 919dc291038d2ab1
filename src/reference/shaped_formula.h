// A compiled formula at one shape: ranges, extents and strides as numbers, verified.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "reference/compiled_formula.h"

namespace assay::reference {

// A half-open interval that holds every value of an index.
struct Range {
  int64_t low = 0;
  int64_t high = 0;
  bool constant = true;  // exactly this range, whatever the other indices and the data
  // Of a range that depends on others: its length at most, and where.
  int64_t most = 0, least_low = 0, most_high = 0;
  int64_t length() const { return high > low ? high - low : 0; }
};

struct ShapedDefinition {
  std::vector<Range> ranges;     // by variable
  std::vector<int64_t> origin;   // by coordinate: the smallest value (0 but for captured indices)
  std::vector<int64_t> extents;  // by coordinate
  std::vector<int64_t> strides;
  int64_t count = 1;
};

struct ShapedFormula {
  Shape shape;
  std::vector<int64_t> dims;                         // by Contract::dims
  std::vector<std::vector<int64_t>> tensor_extents;  // by Contract::tensors
  std::vector<std::vector<int64_t>> tensor_strides;
  std::vector<ShapedDefinition> definitions;

  const std::vector<int64_t>& extents(const CompiledFormula& compiled, int source) const;
};

// "index 2 is 104, but only 0 to 103 exist"; `coordinate` counts from 0.
std::string out_of_range_text(std::size_t coordinate, int64_t index, int64_t extent);

std::vector<int64_t> strides_of(const std::vector<int64_t>& extents);

Result<ShapedFormula> at_shape(const Contract& contract, const CompiledFormula& compiled, const Shape& shape);

}  // namespace assay::reference
