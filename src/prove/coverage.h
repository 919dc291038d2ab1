// Coverage: every element of every output is written, for every promised shape.
//
// This is the one obligation that says that something happens: for each element there is a thread, and an
// iteration of the loops around a store, that writes it. Solvers handle such existential claims badly, so the
// thread is guessed (coverage_witness.h), and the question is whether the guessed one can fail.
//
// For an element e of an output:
//   - the thread is the one that the inverted address gives, or the nearest that exists: so one exists in
//     every case, whatever was guessed;
//   - each loop that it enters ends in some iteration x, of which the conditions for leaving hold. Iterations
//     0 to x are reached. Of a loop around a store the iteration c is the one that puts the store's address on
//     e, brought into 0 to x in the same way;
//   - a loop that the thread does not enter has no iterations; x = c = 0 then satisfies all that is assumed
//     about it, and what holds of its end is assumed only where it is entered.
// So for every run of the kernel there are values that satisfy all assumptions, and if no values make every
// store miss e, some store writes it.
//
// What one launch leaves out another may write: all launches of a call are asked about together. A part that
// the host fills counts as written; an atomic update does not.
//
// Loops are taken to end (but for those that wait for another thread). Barriers are not taken to be passed: if not all threads are
// shown to reach one, those that wait there may never get to their stores, and nothing behind the launch may ever be written.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "prove/obligation.h"
#include "prove/relation.h"

namespace assay::prove {

struct LaunchedKernel {
  const ptx::Module* module = nullptr;
  const ptx::Function* kernel = nullptr;
  const Launch* launch = nullptr;
};

struct CoverageSetting {
  const contract::Contract& contract;
  Solver& solver;
  std::vector<std::string> changed{};  // arrays that the call writes, as for execute()
  bool counterexamples = true;         // are looked for
  double output_seconds = 8;           // of processor time, for one output
  double until = 0;                    // of work_seconds()
  // Whether the threads of a kernel, by its symbol, all get to the same barriers, where that is known (Obligation::threads_agree);
  // it is asked of the others.
  std::map<std::string, bool> threads_agree{};
};

// One case of the launch relation. Adds to `result` what was looked at and what is open.
void prove_coverage(CoverageSetting& setting, const Case& one, const std::vector<LaunchedKernel>& kernels,
                    Obligation& result);

}  // namespace assay::prove
