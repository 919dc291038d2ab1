// Lines of source for a reader.
#pragma once

#include <string>

#include "finding/finding.h"

namespace assay::report {

// "file.cu:14" and the lines about it, as far as the file can be read.
std::string excerpt(const Where& where, int around = 1);

// The lines of source that a finding is about, marked: its own and, of a race, the other access's.
std::string source_text(const Finding& finding);

}  // namespace assay::report
