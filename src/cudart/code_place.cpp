#include "cudart/code_place.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

namespace assay::cudart {
namespace {

namespace fs = std::filesystem;

// As the program was called, which may be by a link.
bool is_own_name(const std::string& name) {
  return fs::path(program_invocation_name).filename() == name;
}

std::vector<uint64_t> all_calls() {
  constexpr int kFrames = 24;
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  std::vector<uint64_t> calls;
  for (int i = 0; i < count; ++i) calls.push_back(reinterpret_cast<uint64_t>(frames[i]));
  return calls;
}

// In this library, or in the one of the driver API that calls it.
bool is_ours(uint64_t code) {
  Dl_info info{}, own{};
  if (dladdr(reinterpret_cast<void*>(code), &info) == 0 || !info.dli_fname) return false;
  (void)dladdr(reinterpret_cast<const void*>(&is_ours), &own);
  return info.dli_fbase == own.dli_fbase || fs::path(info.dli_fname).filename() == "libcuda.so.1";
}

}  // namespace

std::string place_in_code(uint64_t code) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(code), &info) == 0 || !info.dli_fname) return "somewhere";
  // Programs that are not linked to move count from 0.
  const auto* header = static_cast<const Elf64_Ehdr*>(info.dli_fbase);
  const uint64_t base = header->e_type == ET_EXEC ? 0 : reinterpret_cast<uint64_t>(header);
  return fmt::format("{}+{:#x}", fs::path(info.dli_fname).filename().string(), code - base);
}

std::string path_of_module(const std::string& name) {
  std::error_code error;
  // The loader knows the program itself by no name.
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  struct Search {
    const std::string& name;
    std::string path;
  } search{name, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& own = *static_cast<Search*>(data);
        if (fs::path(info->dlpi_name).filename() != own.name) return 0;
        own.path = info->dlpi_name;
        return 1;
      },
      &search);
  if (search.path.empty()) return program.filename() == name || is_own_name(name) ? program.string() : "";
  return fs::absolute(search.path, error).string();
}

std::vector<uint64_t> calls_above(const void* caller) {
  std::vector<uint64_t> calls = all_calls();
  const auto from = std::find(calls.begin(), calls.end(), reinterpret_cast<uint64_t>(caller));
  if (from == calls.end()) return {reinterpret_cast<uint64_t>(caller)};
  calls.erase(calls.begin(), std::find_if_not(from, calls.end(), is_ours));
  return calls;
}

std::vector<uint64_t> calls_into_library() {
  std::vector<uint64_t> calls = all_calls();
  calls.erase(calls.begin(), std::find_if_not(calls.begin(), calls.end(), is_ours));
  return calls;
}

}  // namespace assay::cudart
