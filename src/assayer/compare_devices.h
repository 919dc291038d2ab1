// A contract's trials on the virtual device and on a real GPU: do they give the same bits?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assayer/assayer.h"

namespace assay::assayer {

// Where the two devices' results of one trial differ.
struct DeviceDifference {
  std::string trial;  // in words
  std::string trial_json;
  std::string output;
  std::vector<int64_t> index;                 // the first element that differs
  std::string virtual_value, cuda_value;      // … there
  int64_t differing = 0, elements = 0;        // of that output
  double largest_ulps = 0;                    // between finite values, in units of the output's last place
  std::string virtual_failure, cuda_failure;  // that one of the calls failed, and how; empty: it did not
  // Neither device gives other bits by itself when the call is repeated there, under other schedules and under load.
  bool repeatable = false;
  // Both results are what the contract allows.
  bool allowed = false;
};

struct DeviceComparison {
  std::string contract;
  std::string problem;                        // why nothing was compared; empty: something was
  int trials = 0;                             // on both devices
  int same = 0;                               // with the same bits
  std::optional<DeviceDifference> forbidden;  // the first that the contract does not allow
  std::optional<DeviceDifference> differs;    // the first of a kernel that is repeatable on each
  std::optional<DeviceDifference> varies;     // the first of one that is not
  std::vector<std::string> suspects;          // instructions that may be why: "add.f32 … (k.cu:12)"
  double seconds = 0;
};

// Trials of the plan, within the budget. A difference that the contract does not allow ends it.
DeviceComparison compare_devices(const contract::Contract& contract, const CheckOptions& options,
                                 int most_trials);

}  // namespace assay::assayer
