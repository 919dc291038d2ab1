// What a finding's evidence says of places, in words and lines of source: shared by all that show findings.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"

namespace assay::report {

// "file.cu:14" and the lines about it, as far as the file can be read.
std::string excerpt(const Where& where, int around = 1);

// The other access of a race, as far as it has a line; line 0 where there is none, or the same.
Where other_place(const Finding& finding);

// The lines of source that a finding speaks of, marked: its own and, of a race, the other side's.
std::string source_text(const Finding& finding);

// "kernel softmax, block (0,0,0), thread (5,0,0)"; empty where that is not known.
std::string thread_text(const Finding& finding);

// The calls through which the code was inlined: "k.cu:71 in put, inlined at k.cu:118 in load", one line for
// the finding's place and, of a race, one for the other side's.
std::vector<std::string> chain_lines(const Finding& finding);

}  // namespace assay::report
