// A captured call again, and whose fault it was.
#pragma once

#include <string>

#include "subject/runner.h"

namespace assay::cli {

// Judges the outputs that were captured, makes the same call on the virtual GPU, and with Device::Cuda on a GPU as well.
// The exit status: 0 the captured call was right, 1 it was not, 2 the file cannot be used, 3 the replay tells nothing.
int replay_capture(const std::string& path, subject::Device device, const std::string& json);

}  // namespace assay::cli
