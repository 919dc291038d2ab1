// Training with a candidate: a kernel takes the place of one operator of a small transformer, and the room says whether
// the model still learns.
//
// Example:
//
//     Candidate candidate{.slot = slot_named("embedding_grad")};  // dtypes and call: slots.h
//     Report report = train(candidate, Options{});
//     if (report.verdict == judge::Verdict::Fail) use(message(report.findings.front()));
//
// A matrix of cells, tokens × optimizer. In each, from the same first weights and the same batches:
//
//     reference   everything in fp32
//     trusted     the declared precision, computed by code of this room
//     reordered   the same, all sums in another order and the slot's results rounded by chance: what differs from `trusted` is noise
//     candidate   the same, with the candidate in its slot
//
// Each cell is looked at in three ways, the most sensitive first:
//
//     gradients   with the candidate at the weights of the cell's reference run (teacher-forced). One step shows there what a loss
//                 curve shows late or never, because no trajectory has to diverge first (runs.h)
//     calls       single calls, judged element by element, at states that the cell's run leads to (states.h, examine.h)
//     losses      of the four runs
//
// A fault may show in one of them and hide in the others; which, is what a report of the cell says.
//
//   slots.h     the operators and candidates       signals.h     how two gradients compare
//   model.h     model, data, optimizers            sequential.h  when a difference is more than noise
//
// Promises: results depend on options, seed and candidate alone, never on threads or on whether a run was interrupted;
// a correct candidate is rejected with at most the probability that the options state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "finding/finding.h"
#include "judge/verdict.h"
#include "train/model.h"
#include "train/signals.h"
#include "train/slots.h"

namespace assay::train {

struct Progress {
  std::string doing;  // "zipf + sgd, candidate: step 12 of 50"
  double done = 0;    // of everything, 0 to 1
  double seconds_left = 0;
  double loss = 0;
};

struct Options {
  ModelSizes sizes;
  uint64_t seed = 1;
  int threads = 0;  // 0: one for each core
  std::vector<TokenSource> sources = {TokenSource::Zipf, TokenSource::Uniform};
  std::vector<Optimizer> optimizers = {Optimizer::SGD, Optimizer::Momentum, Optimizer::AdamW};
  std::string text;                               // of --text; a cell of source Text needs it
  Tokenizer tokenizer = Tokenizer::Bytes;         // … what its tokens are
  int steps = 50;                                 // of each run
  int teacher_steps = 8;                          // at most, of the teacher-forced comparison
  bool teacher_only = false;                      // no matrix
  bool stop_early = true;                         // a cell whose question is answered ends
  std::optional<double> rate;                     // the learning rate of every cell; none: default_settings()
  double false_alarms = 1e-6;                     // the probability of rejecting a correct candidate
  std::string checkpoint;                         // file; empty: none is kept
  double checkpoint_seconds = 30;                 // between two checkpoints: what a kill may cost
  std::function<void(const Progress&)> progress;  // may be null
  std::function<bool()> interrupted;              // asked between steps; true: return what there is
};

// One run of a cell.
struct Curve {
  std::vector<double> loss;  // by step
  int64_t nonfinite = 0;     // gradients that are not finite
};

// The comparison at the weights of the reference run of a cell.
struct Teacher {
  std::vector<StepSignals> signals;  // by step
  TokenSource source = TokenSource::Zipf;
  Optimizer optimizer = Optimizer::SGD;  // of the reference run
  double log10_evidence = 0;             // of the sequential test; it rejects at -log10(false_alarms)
  double false_alarms = 0;               // its share of what the options allow for all cells
  int rejected_step = -1;                // -1: it did not
  std::string tensor, part;              // where the evidence is strongest
  bool is_bias = false;                  // … and whether it is the gain, or the size of the error
  double seconds = 0;
  // The step at which gradients are those of no correct candidate: rejected, or with NaN or infinity; -1: none.
  int wrong_step() const;
};

// Single calls at one state of the model (states.h), judged by the contract's rounding budgets.
struct StateReport {
  std::string name;  // "late training"
  ModelSizes sizes;
  int step = 0;  // of training with the cell's tokens and optimizer, from 0: the batch whose calls are judged
  int64_t calls = 0;     // 0: the contract accepts no call at these sizes
  int64_t elements = 0;  // judged
  double seconds = 0;
  std::string problem;            // why calls could not be judged
  std::string failed_site;        // where results are wrong; empty: nowhere
  std::vector<Finding> findings;  // there
};

struct Cell {
  TokenSource source = TokenSource::Zipf;
  Optimizer optimizer = Optimizer::SGD;
  OptimizerSettings settings;
  Teacher teacher;
  std::vector<StateReport>
      states;  // up to the first at which results are wrong; none: there is nothing to judge them by
  Curve reference, trusted, reordered, candidate;
  int64_t steps() const { return static_cast<int64_t>(candidate.loss.size()); }
  double loss_gap = 0;               // largest |candidate - trusted|
  double noise = 0;                  // largest |reordered - trusted|, also of the runs that confirmed a gap
  int gap_step = 0;                  // where the gap is largest
  int unmasked_step = -1;            // the first at which the gap stands out of the noise; -1: none
  std::vector<StepSignals> signals;  // of the candidate's gradient on its own trajectory, by step
  // By its losses: what a user of the model would notice.
  bool unmasked() const { return unmasked_step >= 0; }
  // The state at which single calls are wrong; null: none.
  const StateReport* wrong_state() const;
};

struct Report {
  judge::Verdict verdict = judge::Verdict::Inconclusive;
  std::string reason;  // of an inconclusive verdict
  std::vector<Finding> findings;
  Teacher teacher;                   // of the first cell
  std::vector<StateReport> states;   // of the first cell
  std::vector<Cell> cells;           // none with teacher_only
  std::vector<std::string> sites;    // at which the candidate was called: "layer 0 norm"
  std::vector<std::string> refused;  // "head: V=8192 is more than the contract's N <= 4096"
  int64_t candidate_calls = 0;
  double candidate_seconds = 0, seconds = 0;
  bool is_resumed = false;  // from a checkpoint
};

Report train(const Candidate& candidate, const Options& options);

}  // namespace assay::train
