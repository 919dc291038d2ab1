// Where precision is lost, as shadow execution measured it (room shadow): by source line, and by output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "finding/where.h"

namespace assay {

// What one source line does to precision.
struct LineProfile {
  Where where;
  std::string operation;      // the one that brings most error, as PTX writes it
  double share = 0;           // of the outputs' errors that enters here
  double introduced = 0;      // relative error that enters at an execution, root mean square
  double introduced_max = 0;  // … at most
  double inherited = 0;       // largest relative error of an operand
  double amplification = 0;   // largest factor by which a relative error grew here
  uint64_t executions = 0;    // of lanes
  double cancelled_bits = 0;  // most leading bits that cancelled in an addition
  double cancelled_bits_mean = 0;
  double cancelled_from = 0;   // largest operand of additions where several bits cancelled
  uint64_t stagnated = 0;      // additions of something that left the sum unchanged
  uint64_t overflowed = 0;     // finite operands, result not finite
  uint64_t flushed = 0;        // became zero and should not
  bool pooled = false;         // not told apart from other lines: it has no share of its own
  bool rounds_result = false;  // what enters here is the rounding of a result to its own type
};

struct LineShare {
  Where where;
  double share = 0;
};

struct OutputProfile {
  std::string name;
  double error = 0;              // largest absolute error of an element
  double relative = 0;           // largest relative one, before the rounding of the result to its own type
  uint64_t elements = 0;         // that have an error
  uint64_t broken = 0;           // that are not finite, and should be
  double others = 0;             // share of the lines that were not separated
  Where rounded_at;              // the line that rounds the elements to their own type; line 0: none does
  std::vector<LineShare> lines;  // largest share first; with `others` they sum to one
};

// A comparison or conversion that decided otherwise than it would without rounding errors.
struct Decision {
  Where where;
  std::string what;
  uint64_t count = 0;
};

// An operation through which errors could not be tracked: they were forgotten here.
struct Retaken {
  Where where;
  std::string operation;
  uint64_t count = 0;
};

struct Profile {
  std::vector<LineProfile> lines;  // largest share first, then by what they introduced
  std::vector<OutputProfile> outputs;
  std::vector<Decision> decisions;
  std::vector<Retaken> retaken;
  std::string inputs;  // what the trial was changed to where its own inputs show nothing; empty: its own
};

}  // namespace assay
