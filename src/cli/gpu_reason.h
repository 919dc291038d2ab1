// Why `--device cuda` cannot work, known before anything is built.
#pragma once

#include <string>

namespace assay::cli {

// One line with the fix, as `assay doctor --quick` finds it; empty: a GPU can be used. A driver that does not keep the GPU
// initialised takes seconds to answer, and one on a busy machine as well: this waits for it, as long as `assay doctor` without
// --quick does. Call while this process has one thread only.
std::string why_gpu_unusable();

// What `--device auto` means here. No GPU: the virtual device, without a word and without a delay. One that works: both. One
// that does not: the virtual device, and `problem` says why, in one line with the fix.
struct AutoDevice {
  bool both = false;
  std::string problem;
};
AutoDevice auto_device();

}  // namespace assay::cli
