#include "cudart/code_place.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

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

// In this library, or in the one of the driver API that calls it. dladdr() would also look for the nearest symbol, which takes
// as long as everything else about an allocation.
bool is_ours(uint64_t code) {
  dl_find_object there{}, own{};
  if (_dl_find_object(reinterpret_cast<void*>(code), &there) != 0) return false;
  if (_dl_find_object(reinterpret_cast<void*>(&is_ours), &own) == 0 &&
      there.dlfo_map_start == own.dlfo_map_start)
    return true;
  return std::string_view(there.dlfo_link_map->l_name).ends_with("libcuda.so.1");
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
