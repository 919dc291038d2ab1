// What a training run has done so far, in a file, so that it can be taken up again.
#pragma once

#include <optional>
#include <string>

#include "train/runs.h"

namespace assay::train {

// How far the last cell is.
enum class CellPhase : uint8_t { Gradients, Calls, Losses, Done };

struct Checkpoint {
  std::string of;                     // what the run depends on, apart from the candidate: options and sizes
  std::vector<Cell> cells;            // without the findings of their states
  CellPhase phase = CellPhase::Done;  // of the last of them
  TeacherRun teacher;                 // … in the phase Gradients
  CellRuns runs;                      // … in the phase Losses
  CallCount count;
  double seconds = 0;
};

// What the options say that a result depends on.
std::string identity(const Candidate& candidate, const Options& options);

// Written beside the file and renamed, so that an interruption leaves the old one. A file that cannot be written is no
// error: the run goes on without one.
bool save(const Checkpoint& checkpoint, const std::string& path);
// None where there is no such file, it is damaged, or it is of another run.
std::optional<Checkpoint> read_checkpoint(const std::string& path, const std::string& of);

}  // namespace assay::train
