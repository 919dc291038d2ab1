#include "cudart/code_place.h"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace assay::cudart {

CodePlace code_place(uint64_t code) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(code), &info) == 0 || !info.dli_fname) return {"somewhere", "", 0};
  // Programs that are not linked to move count from 0.
  const auto* header = static_cast<const Elf64_Ehdr*>(info.dli_fbase);
  const uint64_t base = header->e_type == ET_EXEC ? 0 : reinterpret_cast<uint64_t>(header);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(info.dli_fname, error);
  return {fmt::format("{}+{:#x}", path.filename().string(), code - base), path.string(), code - base};
}

std::string place_in_code(uint64_t code) {
  return code_place(code).name;
}

std::vector<uint64_t> calls_above(const void* caller) {
  constexpr int kFrames = 24;
  void* frames[kFrames];
  void** end = frames + backtrace(frames, kFrames);
  void** first = std::find(frames, end, caller);
  if (first == end) return {reinterpret_cast<uint64_t>(caller)};
  std::vector<uint64_t> calls;
  for (; first != end; ++first) calls.push_back(reinterpret_cast<uint64_t>(*first));
  return calls;
}

}  // namespace assay::cudart
