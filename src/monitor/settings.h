// [monitor] of a contract: how calls are monitored in production.
#pragma once

#include <cstdint>
#include <string>

#include "contract/contract.h"

namespace assay::monitor {

enum class OnAlarm : uint8_t { Report, Reference, Abort };

struct Settings {
  int64_t every = 1000;                       // calls from one sample to the next, on average
  int64_t elements = 256;                     // of each output that are judged
  int64_t max_bytes = int64_t{64} << 20;      // calls with more bytes are not sampled
  std::string trusted_source, trusted_entry;  // a kernel that may take the other's place; empty: none
  OnAlarm on_alarm = OnAlarm::Report;
  double samples_between_false_alarms = 1e9;
};

// What the contract says, and the defaults for what it does not. An Error has its place in the contract.
Result<Settings> settings_of(const contract::Contract& contract);

}  // namespace assay::monitor
