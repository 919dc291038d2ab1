// What a program file is, and which CUDA runtime it would load.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace assay::cli {

struct ProgramFile {
  std::vector<std::string> needed;  // shared libraries that it names
  bool is_dynamic = false;
  bool has_rpath = false;  // which the loader prefers to LD_LIBRARY_PATH
  bool has_device_code = false;
  bool is_python = false;
  // Of a Python script: the interpreter and its options, as the first line names them. The rest is that of the
  // interpreter.
  std::vector<std::string> interpreter;
};

// An Error says in one line why it cannot run under `assay run`.
Result<ProgramFile> read_program(const std::string& path);
// Success, or one line on how to build it so that it can.
Result<void> check_runtime(const ProgramFile& file, const std::string& path);

// Finds a program as a shell does; the name itself when it is not on PATH.
std::string find_program(const std::string& name);

}  // namespace assay::cli
