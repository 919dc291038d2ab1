// What a run of a program under `assay run` showed: launches and findings, read from the library's report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"

namespace assay::cli {

// Launches of one kernel with one shape.
struct LaunchRow {
  std::string kernel;  // as C++ spells it
  std::string grid, block;
  uint64_t count = 0, instructions = 0;
  double seconds = 0;
};

struct RunSummary {
  std::vector<LaunchRow> launches;  // in the order of the first
  std::vector<Finding> findings;    // each once; evidence["count"] says how often
  std::vector<std::string> faults, unsupported;
  uint64_t suppressed = 0;
  Json precision;                   // where precision was lost (shadow::to_json); null: not asked for
  bool has_errors() const;
};

// A line of a suppression file: which findings to leave out. * matches any text.
struct Suppression {
  std::string kind, kernel;
  std::string file = "*";  // the end of its path
  int line = 0;            // 0: any
};
Result<std::vector<Suppression>> read_suppressions(const std::string& path);  // none where path is empty

RunSummary read_summary(const std::string& path, const std::vector<Suppression>& suppressions);
void print_summary(const RunSummary& summary);  // on stderr
Result<void> write_summary(const RunSummary& summary, const std::vector<std::string>& program, int status,
                           const std::string& path);

}  // namespace assay::cli
