// The same program, executed by another thread: its terms, with variables of its own for all that may differ.
#pragma once

#include <functional>
#include <map>

#include "prove/term.h"

namespace assay::prove {

class OtherThread {
 public:
  // `shares`: whether both threads have one value of a variable. Dims and the places of arrays they share in any case.
  OtherThread(Terms& terms, std::function<bool(Var)> shares) : terms_(terms), shares_(std::move(shares)) {}

  // What both share besides: the other one has this in its place.
  void set(Term variable, Term value) {
    if (!terms_.is_constant(variable)) renamed_[terms_.mentions(variable).front()] = value;
  }
  // A count becomes an unknown: of the other thread's iterations nothing is known but what its path says.
  Term operator()(Term term);

 private:
  Term rename(Var var);

  Terms& terms_;
  std::function<bool(Var)> shares_;
  std::map<Var, Term> renamed_;
};

}  // namespace assay::prove
