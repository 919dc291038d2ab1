// The function that a contract names: whether the loader would find it, and what there is instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fatbinary/elf.h"

namespace assay::subject {

// One clause on why the loader would not find a function of this name in the library, with what to do;
// empty if it would, or if another library that this one needs may have it.
std::string why_missing(const fatbinary::ElfFile& library, const std::string& name);

// The kernels of a PTX text, by their mangled names.
std::vector<std::string> kernels_in_ptx(std::string_view text);

// The kernels of CUDA C++ by their source names; those of macros are not seen.
struct SourceKernel {
  std::string name;
  bool is_template = false;
};
std::vector<SourceKernel> kernels_in_source(std::string_view text);

// An expression that names a kernel in C++: a source name as it is; a mangled one with its parameters.
std::string kernel_expression(const std::string& name);

}  // namespace assay::subject
