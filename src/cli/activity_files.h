// The files that `assay run` and `assay events` write about a program's memory and streams over time.
#pragma once

#include <string>
#include <vector>

#include "cli/suppressions.h"

namespace assay::cli {

class Arguments;

struct ActivityFiles {
  std::string memory, trace, html;  // paths; empty: not wanted
  bool empty() const { return memory.empty() && trace.empty() && html.empty(); }
};
void add_activity_files(Arguments& arguments, ActivityFiles& files);

// From the events of a program. False: one could not be written, which was said on stderr.
bool write_activity(const std::string& events, const std::string& program,
                    const std::vector<Suppression>& suppressions, const ActivityFiles& files);

}  // namespace assay::cli
