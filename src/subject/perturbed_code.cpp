#include "subject/perturbed_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "base/file.h"
#include "fatbinary/fatbinary.h"
#include "subject/device_code.h"
#include "subject/perturb.h"
#include "subject/process.h"

namespace assay::subject {

namespace fs = std::filesystem;

namespace {

constexpr double kToolSeconds = 60;

// As worker/runtime_calls.cpp has it.
uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void append(std::string& bytes, uint64_t number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof raw);
}

std::map<std::string, uint32_t> registers_in(const std::vector<fatbinary::Image>& images,
                                             unsigned architecture) {
  const fatbinary::Image* code = fatbinary::choose_machine_code(images, architecture);
  if (!code) return {};
  auto registers = fatbinary::registers_of(*code);
  return registers ? std::move(*registers) : std::map<std::string, uint32_t>();
}

class Compiler {
 public:
  Compiler(const std::string& arch, const std::string& folder)
      : arch_(arch), folder_(folder), tools_(fs::path(find_nvcc()).parent_path().string()) {}

  // A container with the code as machine code and as PTX; empty: `problem` says why there is none.
  std::string container(const std::string& ptx, std::string& problem) {
    const std::string source = path("ptx"), code = path("cubin"), container = path("fatbin");
    ++number_;
    std::ofstream(source) << ptx;
    const std::string number = arch_.substr(arch_.find_first_of("0123456789"));
    if (!run({tools_ + "/ptxas", "-arch=" + arch_, "-o", code, source}, problem) ||
        !run({tools_ + "/fatbinary", "--64", "--create=" + container,
              fmt::format("--image3=kind=elf,sm={},file={}", number, code),
              fmt::format("--image3=kind=ptx,sm={},file={}", number, source)},
             problem))
      return "";
    return text_of(container);
  }

 private:
  std::string path(const char* extension) const {
    return fmt::format("{}/code{}.{}", folder_, number_, extension);
  }

  static bool run(const std::vector<std::string>& words, std::string& problem) {
    const auto done = run_command(words, kToolSeconds);
    if (done && done->status == 0 && !done->timed_out) return true;
    problem = done ? done->output.substr(0, done->output.find('\n')) : done.error().text();
    return false;
  }

  const std::string arch_, folder_, tools_;
  int number_ = 0;
};

PerturbedCode of_library(const Subject& subject, const std::string& arch, const std::string& folder) {
  PerturbedCode result;
  const auto library = read_file(subject.library);
  if (!library) return {"", library.error().text()};
  Compiler compiler(arch, folder);
  const unsigned architecture = architecture_number(arch);
  std::string pieces;
  for (const std::string_view container : fatbinary::containers_in(*library)) {
    const auto images = fatbinary::read_fatbinary(std::as_bytes(std::span(container)));
    const fatbinary::Image* image = images ? fatbinary::choose_ptx(*images, architecture) : nullptr;
    const auto text = image ? fatbinary::unpack(*image) : Result<std::string>(Error{"there is no PTX"});
    const auto slower =
        text ? perturb(*text, registers_in(*images, architecture)) : Result<std::string>(text.error());
    if (!slower) {
      result.problem = slower.error().text();
      continue;
    }
    const std::string made = compiler.container(*slower, result.problem);
    if (made.empty()) continue;
    append(pieces, hash_of(container));
    append(pieces, made.size());
    pieces += made;
  }
  if (pieces.empty()) return result;
  result.file = folder + "/code";
  std::ofstream(result.file, std::ios::binary) << pieces;
  return result;
}

}  // namespace

PerturbedCode perturbed_code(const Subject& subject, const std::string& arch, const std::string& folder) {
  if (!subject.python.empty()) return {"", "a Python function's code is known once it runs"};
  if (!subject.library.empty()) return of_library(subject, arch, folder);
  const auto text = read_file(subject.ptx);
  const auto slower = text ? perturb(*text) : Result<std::string>(text.error());
  if (!slower) return {"", slower.error().text()};
  PerturbedCode result{folder + "/code.ptx", ""};
  std::ofstream(result.file) << *slower;
  return result;
}

bool asks_for_multiprocessor(const Subject& subject, const std::string& arch) {
  const auto texts = device_code(subject, arch);
  if (!texts || texts->empty()) return true;
  return std::any_of(texts->begin(), texts->end(), [](const std::string& text) {
    return text.find("%smid") != std::string::npos || text.find("%nsmid") != std::string::npos;
  });
}

}  // namespace assay::subject
