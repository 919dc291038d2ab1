// compute-sanitizer's tools as witnesses of a check on a real GPU: a few of its trials again, observed by each tool.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "assayer/assayer.h"

namespace assay::assayer {

struct Witnessed {
  std::string tool;
  std::vector<Finding> findings;
  std::string problem;  // why it told nothing, or not all; empty: it told all
  double seconds = 0;
};

// Runs the trials on a GPU, observed by one tool. Each call may take so many seconds, many times what it takes alone.
Witnessed witness(const contract::Contract& contract, const subject::Subject& subject, std::string_view tool,
                  std::span<const trial::Trial> trials, const CheckOptions& options, double call_seconds);

// Trials that tell such a tool something: well-behaved inputs at a round shape, an odd one and the smallest.
std::vector<trial::Trial> trials_to_witness(const contract::Contract& contract);

// A finding that the report has is confirmed; others are added.
void add_witnessed(const Witnessed& witnessed, std::vector<Finding>& findings);

}  // namespace assay::assayer
