#include "cli/python_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "subject/subject.h"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

void set(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 1);
}

// Puts `value` before what the variable has.
void prepend(const char* name, const std::string& value) {
  const char* old = std::getenv(name);
  set(name, old && *old ? value + ":" + old : value);
}

// The folder of the package: beside the program in a build tree and an installation, around it in a wheel.
std::string package_folder(const fs::path& libraries) {
  const fs::path root = libraries.parent_path();
  for (const fs::path& folder : {root / "python", root.parent_path().parent_path()})
    if (fs::exists(folder / "assay" / "site" / "sitecustomize.py")) return folder;
  return "";
}

// The option of the interpreter that makes it ignore PYTHONPATH or sitecustomize; "" where there is none.
std::string isolating_option(const std::vector<std::string>& command) {
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with('-') || word == "-") return "";  // the script
    if (word.starts_with("--")) continue;
    for (char letter : word.substr(1)) {
      if (letter == 'I' || letter == 'E' || letter == 'S') return fmt::format("-{}", letter);
      if (letter == 'c' || letter == 'm') return "";  // the rest is the program's
      if (letter == 'W' || letter == 'X') {
        if (word.back() == letter) ++i;  // its value is the next word
        break;
      }
    }
  }
  return "";
}

}  // namespace

bool is_python_name(const std::string& path) {
  const std::string name = fs::path(path).filename();
  if (!name.starts_with("python")) return false;
  return std::all_of(name.begin() + 6, name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == 't' || c == 'd'; });
}

Result<void> prepare_python(const std::vector<std::string>& command, const std::string& libraries) {
  const std::string package = package_folder(libraries);
  if (package.empty())
    return Error{
        fmt::format("the Python package of Assay was not found next to {}; rebuild or reinstall Assay",
                    fs::path(libraries).parent_path().string()),
        "", 0, 0};
  if (!fs::exists(libraries + "/libcuda.so.1"))
    return Error{fmt::format("libcuda.so.1 is missing in {}; rebuild or reinstall Assay", libraries), "", 0,
                 0};
  if (const std::string option = isolating_option(command); !option.empty())
    return Error{fmt::format("Python's option {} keeps Assay out of the program; remove it", option), "", 0,
                 0};
  prepend("LD_PRELOAD", libraries + "/libcudart.so.13:" + libraries + "/libcuda.so.1");
  prepend("PYTHONPATH", package + "/assay/site:" + package);
  // One allocation for each tensor, so that the checks know where a tensor ends.
  set("PYTORCH_NO_CUDA_MEMORY_CACHING", "1");
  // A machine with GPUs must not be asked for their number: there is one here.
  set("CUDA_VISIBLE_DEVICES", "0");
  set("TRITON_LIBCUDA_PATH", libraries);
  // What is compiled for the virtual GPU is not for a real one.
  const std::string cache = subject::cache_folder("");
  set("TRITON_CACHE_DIR", cache + "/triton");
  set("TORCHINDUCTOR_CACHE_DIR", cache + "/inductor");
  set("TORCH_EXTENSIONS_DIR", cache + "/extensions");
  return {};
}

}  // namespace assay::cli
