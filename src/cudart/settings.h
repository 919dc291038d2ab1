// What `assay run` tells the library, through the environment. Everything has a default, so a program
// also runs with nothing but LD_LIBRARY_PATH set.
#pragma once

#include <cstdint>
#include <string>

#include "base/gpus.h"

namespace assay::cudart {

struct Settings {
  uint64_t seed = 0;              // ASSAY_SEED: of the schedule
  unsigned threads = 0;           // ASSAY_THREADS: of the engine; 0: one for each core
  const Gpu* gpu = &kGpus[0];     // ASSAY_GPU: what the device presents itself as, an id of base/gpus.h
  std::string check = "none";     // ASSAY_CHECK: which checks watch
  std::string precision_lines;    // ASSAY_PRECISION_LINES: told apart before others, "FILE:LINE;FILE:LINE"
  std::string report;             // ASSAY_REPORT: file to which one JSON line an event is appended
  std::string suppressions;       // ASSAY_SUPPRESSIONS: file
  uint64_t max_instructions = 0;  // ASSAY_MAX_INSTRUCTIONS: warp instructions of a launch; 0: no limit
  uint64_t stall_milliseconds = 0;  // ASSAY_STALL_MS: for which all may poll before it is a deadlock; 0: 5000
  bool faults = false;            // ASSAY_FAULTS: a launch whose accesses the checks left out ends with their error
  bool record = false;            // ASSAY_RECORD: launches, copies and fills are reported, not done
  bool quiet = false;             // ASSAY_QUIET: no messages on stderr
};

Settings settings_from_environment();

}  // namespace assay::cudart
