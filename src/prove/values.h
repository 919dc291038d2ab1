// Values: do the elements that a kernel stores agree with the contract's formula?
//
// Nothing is proved here. At shapes from the whole promised range, the largest among them, some blocks of the call are
// run on the virtual GPU (values_blocks.h), and some of the elements that they store are held against the formula,
// evaluated for just these elements. Since neither needs more of the inputs than it reads (values_inputs.h), an element
// beyond 2^31 costs no more than the first one, where a trial would have to run the whole grid.
//
// The kernel is executed as the hardware would, rounding included, so an element agrees if the judge admits it: the
// same test, with the same rounding budget, as in every trial (judge/measure.h), and no tolerance of its own.
// Elements whose exact value is not finite are left to trials.
// What is not admitted is a candidate, which counts once a trial has shown it (witness.h).
//
// Kernels whose blocks depend on each other (atomics, several passes over memory) are compared only at shapes at which all
// their blocks can be run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "prove/obligation.h"
#include "subject/runner.h"
#include "trial/trial.h"

namespace assay::prove {

struct ValuesSetting {
  const contract::Contract& contract;
  const subject::Subject& subject;
  std::span<const std::string> texts;         // its PTX
  std::span<const ptx::Module> modules;       // the same, parsed
  std::span<const contract::Shape> examples;  // one for each sequence of launches that is known
  std::vector<std::string> kernels;           // that the host code launches
  double seconds = 5;                         // of processor time
  subject::RunnerOptions runner{};
};

struct ValuesOutcome {
  Obligation obligation;
  // Where an element differs: trials that should show it, small ones first.
  std::vector<trial::Trial> trials;
};

ValuesOutcome compare_values(const ValuesSetting& setting);

}  // namespace assay::prove
