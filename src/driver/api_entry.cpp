// cuGetProcAddress, cuGetExportTable: other ways to the entry points.
#include <dlfcn.h>

#include <algorithm>
#include <string_view>

#include "driver/driver.h"
#include "driver/entries.h"

using namespace assay::driver;
using namespace assay::cudart;

namespace {

constexpr uint64_t kPerThreadDefault = 2, kAllFlags = 3;
constexpr std::string_view kStreamSuffix = "_ptsz", kCopySuffix = "_ptds";

bool is_per_thread(const Entry& entry) {
  return entry.symbol.ends_with(kStreamSuffix) || entry.symbol.ends_with(kCopySuffix);
}

// The newest meaning of a name that a program of this version of CUDA knows. With per-thread default streams, only the
// variants for those count where there are any.
const Entry* find(std::string_view name, int version, bool per_thread, ProcAddressResult& result) {
  const auto all = entries();
  const bool has_variants = std::any_of(
      all.begin(), all.end(), [&](const Entry& entry) { return entry.name == name && is_per_thread(entry); });
  const Entry* best = nullptr;
  result = ProcAddressResult::NotFound;
  for (const Entry& entry : all) {
    if (entry.name != name || is_per_thread(entry) != (per_thread && has_variants)) continue;
    if (entry.since <= version && (!best || entry.since > best->since)) best = &entry;
    result = best ? ProcAddressResult::Found : ProcAddressResult::VersionNotSufficient;
  }
  return best;
}

// A caller that asks why there is none has not failed.
Status give_address(const char* name, void (**address)(), int version, uint64_t flags,
                    ProcAddressResult* found) {
  if (!name || !address || flags > kAllFlags) return Status::InvalidValue;
  ProcAddressResult result;
  const Entry* entry = find(name, version, flags & kPerThreadDefault, result);
  *address = entry ? entry->address : nullptr;
  if (found) *found = result;
  return entry || found ? Status::Success : Status::SymbolNotFound;
}

bool is_nvidia_library(const void* code) {
  Dl_info found{};
  if (dladdr(code, &found) == 0 || !found.dli_fname) return false;
  const std::string_view path = found.dli_fname, name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libcu") || name.starts_with("libnv") || name.starts_with("libnccl");
}

}  // namespace

DRIVER_API Status cuGetProcAddress_v2(const char* name, void (**address)(), int version, uint64_t flags,
                                      ProcAddressResult* found) {
  return give_address(name, address, version, flags, found);
}
DRIVER_API Status cuGetProcAddress(const char* name, void (**address)(), int version, uint64_t flags) {
  return give_address(name, address, version, flags, nullptr);
}

// Through these tables a runtime that is linked into a program reaches parts of the driver that are not documented.
// NVIDIA's own libraries (cuDNN, NCCL, …) ask for them when they are loaded and go on without: they are refused in silence.
DRIVER_API Status cuGetExportTable(const void** table, const void*) {
  if (table) *table = nullptr;
  if (is_nvidia_library(__builtin_return_address(0))) return Status::NotSupported;
  const InDriver inside;
  return assay_not_supported(
      "a CUDA runtime that is linked into the program (it needs undocumented tables of the driver through "
      "cuGetExportTable; link with `nvcc -cudart shared`)");
}
