// Places in the code of this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay::cudart {

// "program+0x1234": what addr2line wants to know.
std::string place_in_code(uint64_t code);
// The file that such a place is in; "" when there is none.
std::string path_of_module(const std::string& name);

// The calls that led to `caller`, a return address of the calling thread's, innermost first: return
// addresses.
std::vector<uint64_t> calls_above(const void* caller);
// All that led into this library.
std::vector<uint64_t> calls_into_library();

}  // namespace assay::cudart
