// What a report holds: the trial of a finding, the timeline of a check, and the files that both are about.
#pragma once

#include <string>

#include "assayer/assayer.h"
#include "base/result.h"

namespace assay::cli {

struct DeviceName {
  std::string name = "virtual";
  subject::Device device() const { return name == "cuda" ? subject::Device::Cuda : subject::Device::Virtual; }
};

struct Recorded {
  contract::Contract contract;
  trial::Trial trial;
  Kind kind = Kind::WrongResult;
  std::string device = "virtual";  // that showed it, the virtual one if it did
  std::string note;                // that files have changed or gone since; empty: they have not
};
// The trial of a report's finding, counted from 1.
Result<Recorded> read_trial(const std::string& path, std::size_t which);

// The path of a report's contract; `options` become those that repeat its check exactly.
Result<std::string> read_timeline(const std::string& path, assayer::CheckOptions& options,
                                  std::string& device);

}  // namespace assay::cli
