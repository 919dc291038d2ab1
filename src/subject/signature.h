// Whether a function takes what a contract passes to it.
//
// Only what cannot work is an error: a wrong number of arguments, a value where an address is passed, a
// 64-bit integer where a 32-bit one is passed, and the like. Pointers to raw storage (void*, bytes, integers
// for floats), structs, and whatever the source converts by a cast are taken as the author's business.
#pragma once

#include <string>
#include <vector>

#include "contract/contract.h"
#include "ptx/module.h"
#include "subject/debug_info.h"

namespace assay::subject {

// Of a kernel in PTX, whose parameters have a size and a class and no more.
CSignature signature_of(const ptx::Function& kernel);

// One clause for a person on the first thing that does not fit, with what to write instead; empty: all fits.
// `sources`: the texts that the subject was built from.
std::string misfit(const contract::Contract& contract, const std::string& function,
                   const CSignature& signature, const std::vector<std::string>& sources);

// Whether a text holds anything by which bytes of one type are taken for another's.
bool reinterprets_memory(std::string_view text);

}  // namespace assay::subject
