// Places in the code of this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay::cudart {

// "program+0x1234": what addr2line wants to know.
std::string place_in_code(uint64_t code);

struct CodePlace {
  std::string name;    // place_in_code()
  std::string module;  // the file's path; empty where there is none
  uint64_t offset = 0;
};
CodePlace code_place(uint64_t code);

// The calls that led to `caller`, a return address of the calling thread's, innermost first: return
// addresses.
std::vector<uint64_t> calls_above(const void* caller);

}  // namespace assay::cudart
