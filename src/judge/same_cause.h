// Which findings have one cause.
//
// In a trial: one finding for each cause, the most important first, the others listed as its consequences. In
// a check that goes on after its first finding: a cause that is known is counted, not reported again. Two
// findings have the same cause if they are of one kind and about the same output; without an output, at the
// same line; without a line, in the same kernel. Which kind of inaccuracy it is depends on how many errors a
// trial happens to have: where most of an output is off in both, it is one cause, whatever the kinds.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "finding/finding.h"

namespace assay::judge {

// Equal for findings that have one cause.
struct Signature {
  Kind kind;           // kinds of inaccuracy other than wrong-result count as one
  std::string output;  // or else
  std::string place;   // … "k.cu:14", or else the kernel
  bool operator==(const Signature&) const = default;
  bool operator<(const Signature& other) const {
    return std::tie(kind, output, place) < std::tie(other.kind, other.output, other.place);
  }
};
Signature signature_of(const Finding& finding);

// One finding for each cause, the most important first. What the line of the first finding does besides is a
// consequence of it, as is a value that an illegal access or a race left undefined. Of one kind only the
// first line is reported and the others are listed with it, unless they are to be kept apart.
std::vector<Finding> distinct(const std::vector<Finding>& findings, bool apart);

// Whether two devices saw one cause, each by itself: `real` on a GPU, `seen` on the virtual device. A GPU knows neither
// the line nor the kernel of an illegal access, and does not see what a call waits for that never ends.
bool is_same_cause(const Finding& seen, const Finding& real);

class KnownCauses {
 public:
  // The errors among the findings that no known cause explains. A cause that explains others is counted once.
  std::vector<Finding> unexplained(const std::vector<Finding>& findings);
  // A cause, as it was named, and what it was seen as before.
  void add(const Finding& named, std::span<const Finding> seen);
  // A known cause that was named otherwise than it is first seen: it takes another look to tell whether it is
  // behind these findings.
  std::optional<Kind> renamed(const std::vector<Finding>& findings) const;
  bool knows(const Finding& finding) const;
  // In how many trials it was seen.
  int trials(const Finding& named) const;

 private:
  struct Known {
    Signature signature;
    Kind kind;
    std::set<Signature> seen;
    std::set<std::string> off;      // outputs of which most is off
    std::set<std::string> inexact;  // outputs of which some is
    int trials = 1;
  };
  static bool explains(const Known& cause, const Finding& finding);
  std::vector<Known> causes_;
};

}  // namespace assay::judge
