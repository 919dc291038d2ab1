// A kernel whose threads lose time at random moments: the same PTX with pauses, for a real GPU.
//
//     Result<std::string> slower = perturb(ptx);   // PTX that computes the same, in other orders
//
// On a GPU a race seldom shows: warps of a small grid run at the same pace, and the lanes of a warp in step. CUDA promises
// neither. So the code is rewritten without a change of what it means:
//
//   pauses   before accesses to shared and global memory, barriers, fences and at the start of a kernel, a warp
//            sleeps, now and then, for up to 32 microseconds
//   splits   code between two points at which the lanes of a warp meet is there twice; lanes that a random mask names run the
//            second copy, so that one part of a warp is done with it before the other begins
//
// Each time another clock decides. A kernel that is right under CUDA's rules stays right; one that relies on timing gives
// another result, which is judged like any other.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace assay::subject {

// `registers`: that each kernel needs, by name, where that is known: the new code must not need more than a block of its
// threads can have. An Error: the text cannot be read.
Result<std::string> perturb(const std::string& ptx, const std::map<std::string, uint32_t>& registers = {});

}  // namespace assay::subject
