// Renamed copies of what a kernel's terms speak of: one thread's run beside another's, one iteration beside
// another.
//
// The variables of a summary stand for any one thread, and for any one iteration of each loop. A question
// about two of them at once (the iteration that stores an element, and the one in which the loop ends) needs
// each under its own name. An Instance renames on demand: every variable but dims and bases gets a copy with
// the same range and the same facts. The copy of a count brings what is known of its loop; a claim about a
// loop is proved for all threads and inputs, so it holds of any copy.
//
//   Instance thread(terms, world, claims);          // one thread; counts are those of the last iteration
//   Instance at(terms, world, claims, &thread, k);  // the same thread, in another iteration of loop k
//
// Variables are numbered in the order of their creation, so those that a loop's body makes have higher
// numbers than its count: an instance within another takes from it everything below `from`.
#pragma once

#include <map>
#include <vector>

#include "prove/lower.h"

namespace assay::prove {

class Instance {
 public:
  Instance(Terms& terms, Summary& world, Claims& claims, Instance* outer = nullptr, Var from = 0)
      : terms_(terms), world_(world), claims_(claims), outer_(outer), from_(from) {}

  Term operator()(Term term);
  Path operator()(const Path& path);
  Var of(Var var);  // its copy
  // Counts that were copied here, by their own name.
  const std::vector<Var>& counts() const { return counts_; }

 private:
  Terms& terms_;
  Summary& world_;
  Claims& claims_;
  Instance* outer_;
  Var from_;
  std::map<Var, Term> copies_;
  std::vector<Var> counts_;
};

}  // namespace assay::prove
