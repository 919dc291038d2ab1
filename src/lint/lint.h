// What a kernel's PTX says before anything runs.
//
//   auto notes = lint(module, {});                // ptx::Module → notes, in the order of the code
//   for (const Note& note : notes) ...            // kind, place, instruction, why, what to do
//
// Nothing here is proof: a note says where a kernel does something that is often a mistake, and never changes
// a verdict. The analyses follow values, not text: a sum is loop-carried if the definitions that reach an
// addition come, around a loop, from that addition itself; a float is truncated if its upper half is kept,
// nothing was added to it first, and the lower half goes nowhere.
//
//   flow.h          control flow, loops, which definitions reach a use
//   rules.h         what every rule sees;  sums.cpp, conversions.cpp, math.cpp, collectives.cpp: the rules
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "ptx/module.h"

namespace assay::lint {

struct Options {
  bool fast_math = false;  // the contract's `math` is "fast": approximate functions and flushing are meant
};

struct Note {
  std::string_view kind;    // of kinds()
  std::string kernel;       // or device function, as its source names it
  std::string instruction;  // as PTX writes it
  Where where;              // the user's own line, not that of a header it was inlined from; else the PTX's
  std::string message;      // why it matters and what to do, in two sentences at most
  int count = 1;            // instructions that it speaks of (unrolled loops)
};

struct KindInfo {
  std::string_view kind;
  std::string_view summary;
  std::string_view hint;  // the kind of finding that it makes likely; empty: none
};
const std::vector<KindInfo>& kinds();

// `name` is what places in PTX without source lines are called.
std::vector<Note> lint(const ptx::Module& module, const Options& options, std::string_view name = "ptx");

// A note as a finding of severity Note.
Finding to_finding(const Note& note);

// The kinds of finding that notes make likely, those of the most notes first.
std::vector<std::string> hints(const std::vector<Note>& notes);

}  // namespace assay::lint
