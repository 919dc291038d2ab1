// What a kernel's PTX says before anything runs.
//
// Example:
//
//     Result<ptx::Module> module = ptx::parse(ptx_text);
//     for (const Finding& note : lint(*module, {})) use(message(note));
//
// Nothing here is proof: a note says where a kernel does something that is often a mistake, and never changes
// a verdict. The analyses follow values, not text: a sum is loop-carried if the definitions that reach an
// addition come, around a loop, from that addition itself; a float is truncated if its upper half is kept,
// nothing was added to it first, and the lower half goes nowhere.
//
//   flow.h          control flow, loops, which definitions reach a use
//   rules.h         what every rule sees;  sums.cpp, conversions.cpp, math.cpp, collectives.cpp: the rules
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "finding/finding.h"
#include "ptx/module.h"

namespace assay::lint {

struct Options {
  bool fast_math = false;  // the contract's `math` is "fast": approximate functions and flushing are meant
};

// Findings of severity Note, in the order of the code; `count` says how many instructions one speaks of (unrolled
// loops). `where` is the user's own line, not that of a header it was inlined from; `name` is what places in PTX
// without source lines are called.
std::vector<Finding> lint(const ptx::Module& module, const Options& options, std::string_view name = "ptx");

// The kinds of finding that notes make likely, those of the most notes first.
std::vector<Kind> hints(std::span<const Finding> notes);

}  // namespace assay::lint
