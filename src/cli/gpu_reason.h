// Why `--device cuda` cannot work, known before anything is built.
#pragma once

#include <string>

namespace assay::cli {

// One line with the fix, as `assay doctor --quick` finds it; empty: a GPU can be used, or it is not known. Takes less
// than a second. Call while this process has one thread only.
std::string why_gpu_unusable();

}  // namespace assay::cli
