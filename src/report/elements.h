// Elements of shared arrays, by the source: "tile[1][5][0]" for "tile + 640 bytes".
//
// The device knows the name and the size of an array; its dimensions stand in the source alone. The
// declaration is looked for in the files that a finding names, its dimensions are worked out as far as
// constants, macros and template arguments tell, and what comes out must fit the array's size exactly.
// Otherwise the text stays as it is: no index is better than a wrong one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "finding/finding.h"

namespace assay::report {

// A variable as the device knows it.
struct ArrayPlace {
  std::string symbol;   // mangled
  uint64_t bytes = 0;   // of the whole; 0: dynamic shared memory
  uint64_t offset = 0;  // of the place; may lie past the end
};

// "[1][5][0]" as indices, and bytes into that element; none where the source does not tell.
struct Element {
  std::vector<uint64_t> indices;
  uint64_t rest = 0;
};
std::optional<Element> find_element(const std::string& source, const ArrayPlace& place);

// Fills in the elements of the shared arrays that a finding is about.
void name_elements(Finding& finding);

}  // namespace assay::report
