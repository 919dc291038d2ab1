// Python programs under `assay run`: torch and Triton run on the virtual GPU with nothing rewritten.
//
// Python is started with both of our libraries preloaded (torch's run path would find NVIDIA's otherwise), and with
// the package `assay` on its path, whose sitecustomize installs the rest: python/assay/virtual.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace assay::cli {

// Whether a file name is that of a Python interpreter: "python", "python3.11", "python3.13t".
bool is_python_name(const std::string& path);

// Sets the environment of a Python program that is started as `command`. `libraries`: the folder of libcudart.so.13.
// An Error says in one line what is missing.
Result<void> prepare_python(const std::vector<std::string>& command, const std::string& libraries);

}  // namespace assay::cli
