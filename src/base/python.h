// Where Python is: the interpreter that runs references and Python subjects, and Assay's own package.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace assay {

// ASSAY_PYTHON, or python3 of the path.
inline std::string python_program() {
  const char* chosen = std::getenv("ASSAY_PYTHON");
  return chosen && *chosen ? chosen : "python3";
}

// The folder that holds the package `assay`; empty: it is not there. Beside a build tree's bin/ lies python/;
// in a wheel the program lies in assay/_program/bin.
inline std::string python_package_folder() {
  std::error_code error;
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::string_view place : {"../python", "../../.."}) {
    const std::filesystem::path folder = (bin / place).lexically_normal();
    if (std::filesystem::exists(folder / "assay" / "reference", error) ||
        std::filesystem::exists(folder / "assay" / "worker", error))
      return folder.string();
  }
  return "";
}

// `first` before what a variable that lists folders already holds.
inline std::string path_with(const std::string& first, const char* variable) {
  const char* old = std::getenv(variable);
  return old && *old ? first + ":" + old : first;
}

// What to say where the interpreter lacks a module.
inline std::string missing_module(std::string_view module, std::string_view install) {
  return python_program() + " has no " + std::string(module) + ": install it (python3 -m pip install " +
         std::string(install) + "), or name an interpreter that has it in ASSAY_PYTHON";
}

}  // namespace assay
