// The PTX of a subject: what its library holds, or what a source compiles to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "finding/where.h"
#include "ptx/module.h"
#include "subject/subject.h"

namespace assay::subject {

// 90 for "sm_90a".
unsigned architecture_number(const std::string& arch);

// The PTX that a device of the contract's architecture would take, one text for each translation unit. Read
// from the built library: nothing is compiled again. Empty if the library holds machine code only.
Result<std::vector<std::string>> device_code(const Subject& subject, const std::string& arch = "sm_90");

// CUDA C++ to PTX with source lines, by nvcc. An Error holds what the compiler said.
Result<std::string> compile_to_ptx(const std::string& source, const std::string& arch = "sm_90",
                                   const std::vector<std::string>& flags = {});

// The line of an instruction outside of all that was inlined; line 0: none of the user's own.
Where place_of(const ptx::Module& module, const ptx::Instruction& instruction);
// Where a kernel of these modules is defined, by their line tables; line 0: not known.
Where place_of_kernel(std::span<const ptx::Module> modules, const std::string& symbol);

}  // namespace assay::subject
