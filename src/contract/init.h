// The library behind `assay init`: a first contract from CUDA source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "contract/contract.h"

namespace assay::contract {

// An extern "C" function found in CUDA source text, by reading, not compiling.
struct SignatureArg {
  std::string type;  // "const __nv_bfloat16*"
  std::string name;
};
struct Signature {
  std::string returns;
  std::string name;
  std::vector<SignatureArg> args;
  int line = 0;
  bool is_defined = false;  // not only declared
};
std::vector<Signature> find_signatures(std::string_view cuda_source);

// A first contract for the user to complete: kernel, dims, tensors and scalars
// as far as the signature tells, and a reference for them to fill in. `source`
// is the path to write into it. An error if no extern "C" function is found, or
// `entry` names none of them; with an empty `entry`, the last one.
Result<std::string> initial_contract(std::string_view cuda_source, const std::string& source,
                                     std::string_view entry = "");

}  // namespace assay::contract
