// Making a failing trial small: the smallest shape and the simplest inputs and condition that still
// show the same failure.
#pragma once

#include <functional>

#include "trial/trial.h"

namespace assay::trial {

// Whether the trial still shows what it showed. Asked once for each attempt; returning false when
// time is up ends the search with what there is.
using StillFails = std::function<bool(const Trial&)>;

struct Shrunk {
  Trial trial;
  int attempts = 0;
};
Shrunk shrink(const contract::Contract& contract, Trial trial, const StillFails& still_fails,
              int max_attempts = 60);

}  // namespace assay::trial
