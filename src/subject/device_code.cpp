#include "subject/device_code.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "fatbinary/fatbinary.h"
#include "subject/process.h"

namespace assay::subject {

namespace {

constexpr double kCompileSeconds = 120;

unsigned architecture_number(const std::string& arch) {
  const std::size_t digit = arch.find_first_of("0123456789");
  return digit == std::string::npos ? 90u : static_cast<unsigned>(std::atoi(arch.c_str() + digit));
}

}  // namespace

Result<std::vector<std::string>> device_code(const Subject& subject, const std::string& arch) {
  if (!subject.python.empty()) return std::vector<std::string>();  // known once it runs
  const auto file = read_file(subject.library.empty() ? subject.ptx : subject.library);
  if (!file) return file.error();
  if (subject.library.empty()) return std::vector<std::string>{*file};
  return fatbinary::ptx_in(*file, architecture_number(arch));
}

Result<std::string> compile_to_ptx(const std::string& source, const std::string& arch,
                                   const std::vector<std::string>& flags) {
  const std::string nvcc = find_nvcc();
  if (nvcc.empty()) {
    return Error{
        "nvcc is not on PATH, in CUDA_HOME or in /usr/local/cuda: CUDA C++ sources cannot be compiled",
        source};
  }
  const TemporaryFolder folder("ptx");
  if (folder.path().empty()) return Error{"no temporary folder can be made"};
  const std::string out = folder.file("subject.ptx");
  std::vector<std::string> words = {nvcc, "-ptx", "-lineinfo", "-arch=" + arch};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"-o", out, source});
  const auto result = run_command(words, kCompileSeconds, {.temporary = folder.path()});
  if (!result) return result.error();
  if (result->timed_out) {
    return Error{fmt::format("the compiler did not end within {:.0f} s", kCompileSeconds), source};
  }
  if (result->status != 0) return Error{fmt::format("does not compile\n{}", result->output), source};
  auto text = read_file(out);
  if (!text) return Error{"the compiler wrote no PTX", source};
  return text;
}

}  // namespace assay::subject
