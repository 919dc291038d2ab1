#include "subject/device_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/symbol.h"
#include "base/temporary_folder.h"
#include "base/toolkit.h"
#include "fatbinary/fatbinary.h"
#include "subject/process.h"

namespace assay::subject {

namespace {

constexpr double kCompileSeconds = 120;

// The line outside of all that was inlined; line 0: none of the user's own.
Where outermost(const ptx::Module& module, uint32_t at) {
  if (at == ptx::kNone) return {};
  for (int depth = 0; module.locations[at].inlined_at != ptx::kNone && depth < 64; ++depth)
    at = module.locations[at].inlined_at;
  const ptx::SourceLocation& location = module.locations[at];
  const std::string file = location.file < module.files.size() ? module.files[location.file] : "";
  return is_toolkit_header(file) ? Where{} : Where{file, static_cast<int>(location.line)};
}

// The last line up to this one that has the name and a parenthesis after it: where the function begins, if `where` is
// a line of its body. The line itself where there is none.
Where beginning(const Where& where, const std::string& name) {
  std::ifstream file(where.file);
  Where begins = where;
  std::string line;
  for (int number = 1; number <= where.line && std::getline(file, line); ++number) {
    const std::size_t at = line.find(name);
    if (at != std::string::npos && line.find('(', at) != std::string::npos) begins.line = number;
  }
  return begins;
}

}  // namespace

unsigned architecture_number(const std::string& arch) {
  const std::size_t digit = arch.find_first_of("0123456789");
  return digit == std::string::npos ? 90u : static_cast<unsigned>(std::atoi(arch.c_str() + digit));
}

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
  if (const std::string why = why_not_for_nvcc(source); !why.empty()) return Error{why, source};
  const TemporaryFolder folder("ptx");
  if (folder.path().empty()) return Error{"no temporary folder can be created"};
  const std::string out = folder.file("subject.ptx");
  std::vector<std::string> words = {nvcc, "-ptx", "-lineinfo", "-arch=" + arch};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"-o", out, source});
  const auto result = run_command(words, kCompileSeconds, {.temporary = folder.path()});
  if (!result) return result.error();
  if (result->timed_out) {
    return Error{fmt::format("the compiler did not finish within {:.0f} s", kCompileSeconds), source};
  }
  if (result->status != 0) return Error{fmt::format("does not compile\n{}", result->output), source};
  auto text = read_file(out);
  if (!text) return Error{"the compiler wrote no PTX", source};
  return text;
}

Where place_of(const ptx::Module& module, const ptx::Instruction& instruction) {
  return outermost(module, instruction.location);
}

Where place_of_kernel(std::span<const ptx::Module> modules, const std::string& symbol) {
  for (const ptx::Module& module : modules) {
    const ptx::Function* kernel = module.find(symbol);
    if (!kernel || !kernel->is_entry) continue;
    Where first;
    for (const ptx::Instruction& instruction : kernel->body) {
      const Where where = outermost(module, instruction.location);
      if (where.line > 0 && (first.line == 0 || (where.file == first.file && where.line < first.line)))
        first = where;
    }
    if (first.line > 0) {
      std::string name = function_name(symbol);
      name.resize(std::min(name.size(), name.find('<')));
      return beginning(first, name);
    }
  }
  return {};
}

}  // namespace assay::subject
