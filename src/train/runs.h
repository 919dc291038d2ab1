// The runs behind a report: the teacher-forced comparison, and the four runs of a cell in step with each other.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/sequential.h"
#include "train/train.h"
#include "train/transformer.h"

namespace assay::train {

// A run that can go on: weights, and what the optimizer remembers.
struct RunState {
  Weights<float> weights;
  OptimizerState<float> optimizer;
};

// What all runs of a report share.
struct Setting {
  const Candidate& candidate;
  const Options& options;
  ModelSizes sizes;  // those of the options, with the activation that the slot needs
  Team& team;
  Transformer<float>& model;
  double false_alarms = 0;  // of one comparison of gradients: what the options allow, shared by the cells
  bool diagnoses = true;    // whether a wrong call is looked into
  CallCount count;          // of the candidate's calls, over all runs
  std::optional<CallFailure> failure;  // of a call of the candidate
  // Called after each gradient, which may have been one with the candidate; true: stop.
  std::function<bool(const std::string& doing, double loss, bool calls_candidate)> lap;
  // The same for work that no estimate of the time left counts.
  std::function<bool(const std::string& doing)> note;
};

// The gradient of a batch, by a run that plays this role. Its calls are counted.
double gradient(Setting& setting, const RunRole& role, const Weights<float>& weights, const Batch& batch,
                Gradients<float>& gradients);

// The optimizers that a slot can be tried with: the one that it is, or all.
std::vector<Optimizer> optimizers_for(const Slot& slot, const std::vector<Optimizer>& asked);

Result<Data> data_of(TokenSource source, const ModelSizes& sizes, const Options& options);

OptimizerSettings settings_of(Optimizer optimizer, TokenSource source, const Options& options);

// Gradients that one step of the comparison takes.
inline constexpr int kNoiseDraws = 3;
inline constexpr int kTeacherGradients = kNoiseDraws + 3;
inline constexpr int kRunsOfCell = 4;

// The teacher-forced comparison so far. step() adds one step.
struct TeacherRun {
  Teacher teacher;
  RunState reference;
  std::vector<double> gain_squares, error_squares;  // of the noise at each place, summed over draws
  int draws = 0;
  std::vector<double> log10_products;  // of the sequential test
  bool is_ended = false;               // the candidate is rejected, or there is NaN or infinity
};
void start(const Setting& setting, TokenSource source, Optimizer optimizer, TeacherRun& run);
// false: the candidate failed, or the run was interrupted; the comparison is as it was before.
bool step(Setting& setting, const Data& data, TeacherRun& run);

// The runs of a cell. step() adds one step to each; a cell that was read from a checkpoint goes on.
struct CellRuns {
  RunState runs[kRunsOfCell];  // reference, trusted, reordered, candidate
};
void start(const Setting& setting, CellRuns& runs);
// false, as above: the cell is as it was before.
bool step(Setting& setting, const Data& data, Cell& cell, CellRuns& runs);
// Whether the cell's question is answered.
bool is_answered(const Cell& cell);

// The findings that the cells amount to: at most one for each way of looking at them.
std::vector<Finding> findings_of(const std::vector<Cell>& cells, const Candidate& candidate,
                                 const Options& options);

}  // namespace assay::train
