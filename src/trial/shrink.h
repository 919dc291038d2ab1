// Making a failing trial small: the smallest shape and the simplest inputs and condition that still
// show the same failure. The search comes from below: a small trial costs next to nothing, so most of what it
// tries is cheap even where the trial that failed is not.
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
// Attempts, unless told otherwise. Chosen; Shrink.FindsTheSmallestShape (tests/trial) wants a
// case of two dims done in 60.
inline constexpr int kMostAttempts = 200;
Shrunk shrink(const contract::Contract& contract, Trial trial, const StillFails& still_fails,
              int max_attempts = kMostAttempts);

}  // namespace assay::trial
