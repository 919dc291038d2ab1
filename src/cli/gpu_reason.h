// Why `--device cuda` cannot work, known before anything is built.
#pragma once

#include <string>

namespace assay::cli {

// One line with the fix, as `assay doctor --quick` finds it; empty: a GPU can be used, or it is not known. Takes less
// than a second. Call while this process has one thread only.
std::string why_gpu_unusable();

// What `--device auto` means here. No GPU: the virtual device, without a word and without a delay. One that works: both. One
// that does not: the virtual device, and `problem` says why, in one line with the fix.
struct AutoDevice {
  bool both = false;
  std::string problem;
};
AutoDevice auto_device();

}  // namespace assay::cli
