// Which findings have one cause.
//
// In a trial: one finding for each cause, the heaviest first, the others listed as its consequences. In a
// check that goes on after its first finding: a cause that is known is counted, not reported again. Two
// findings have the same cause where they are of one kind and speak of the same output; without an output, of
// the same line; without a line, of the same kernel. Which kind of inaccuracy it is depends on how many
// errors a trial happens to have: where most of an output is off in both, it is one cause, whatever the
// kinds.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "assayer/attempt.h"

namespace assay::assayer {

// "data-race at k.cu:14", "wrong-result of y"; kinds of inaccuracy other than wrong-result are one.
std::string signature_of(const Finding& finding);

// One finding for each cause, the heaviest first. What a heavier finding's line does besides is a consequence
// of it, as is a value that an illegal access or a race left undefined. Of one kind only the first line is
// reported and others are evidence, unless they are to be kept apart.
std::vector<Finding> distinct(const std::vector<Finding>& findings, bool apart);

class Causes {
 public:
  // The errors among the findings that no known cause explains. A cause that explains others is counted once.
  std::vector<Finding> unexplained(const std::vector<Finding>& findings);
  // A cause, as it was named, and what it was seen as before.
  void add(const Finding& named, std::span<const Finding> seen);
  // A known cause that was named otherwise than it is first seen: it takes another look to tell whether it is
  // behind these findings. Empty: none.
  std::string renamed(const std::vector<Finding>& findings) const;
  bool knows(const Finding& finding) const;
  // In how many trials it was seen.
  int trials(const Finding& named) const;

 private:
  struct Cause {
    std::string kind, signature;
    std::set<std::string> seen;     // signatures
    std::set<std::string> off;      // outputs of which most is off
    std::set<std::string> inexact;  // outputs of which some is
    int trials = 1;
  };
  static bool explains(const Cause& cause, const Finding& finding);
  std::vector<Cause> causes_;
};

}  // namespace assay::assayer
