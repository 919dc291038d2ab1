// What a run of a program under `assay run` showed: launches and findings, read from the library's report.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/suppressions.h"
#include "finding/finding.h"

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
  std::vector<Finding> findings;    // each once; `count` says how often
  std::vector<std::string> faults, unsupported;
  uint64_t suppressed = 0;
  std::shared_ptr<const Profile> profile;  // where precision was lost; null: not asked for
  bool has_errors() const;
};

class ActivityLog;

// `log`: also gets every event; may be null.
RunSummary read_summary(const std::string& path, const std::vector<Suppression>& suppressions,
                        ActivityLog* log = nullptr);
void print_summary(const RunSummary& summary);   // on stderr
void print_findings(const RunSummary& summary);  // … without the launches
// As JSON; of a program that has ended, with its command line and its wait status.
Result<void> write_summary(const RunSummary& summary, const std::string& path);
Result<void> write_summary(const RunSummary& summary, const std::vector<std::string>& program, int status,
                           const std::string& path);

}  // namespace assay::cli
