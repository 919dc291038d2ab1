// How CUDA source indexes the pointers of a function: shapes to propose. By reading, not compiling: what is not
// understood is left out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "contract/init.h"

namespace assay::contract {

struct Uses {
  std::map<std::string, std::vector<std::string>>
      shapes;                                  // of pointers, by name: dims of the function, or numbers
  std::map<std::string, std::string> indexes;  // integers that choose rows: of which pointer
};

// `text` has no comments. Pointers are followed into the kernels and functions that `entry` passes them to.
Uses uses_of(std::string_view text, const Signature& entry, const std::vector<std::string>& dims);

}  // namespace assay::contract
