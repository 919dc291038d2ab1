// cuGetProcAddress, cuGetExportTable: other ways to the entry points.
#include "driver/driver.h"
#include "driver/entries.h"

using namespace assay::driver;
using namespace assay::cudart;

namespace {

constexpr uint64_t kPerThreadDefault = 2;
constexpr std::string_view kStreamSuffix = "_ptsz", kCopySuffix = "_ptds";

bool is_per_thread(const Entry& entry) {
  return entry.symbol.ends_with(kStreamSuffix) || entry.symbol.ends_with(kCopySuffix);
}

// The newest meaning of a name that a program of this version of CUDA knows. With per-thread default streams, the
// variant for those where there is one.
const Entry* find(std::string_view name, int version, bool per_thread, ProcAddressResult& result) {
  const Entry* best = nullptr;
  result = ProcAddressResult::NotFound;
  for (const Entry& entry : entries()) {
    if (entry.name != name || (is_per_thread(entry) && !per_thread)) continue;
    if (entry.since > version) {
      if (!best) result = ProcAddressResult::VersionNotSufficient;
      continue;
    }
    if (!best || entry.since > best->since || (entry.since == best->since && is_per_thread(entry)))
      best = &entry;
    result = ProcAddressResult::Found;
  }
  return best;
}

Status give_address(const char* name, void (**address)(), int version, uint64_t flags,
                    ProcAddressResult* found) {
  if (!name || !address || flags > kPerThreadDefault) return Status::InvalidValue;
  ProcAddressResult result;
  const Entry* entry = find(name, version, flags == kPerThreadDefault, result);
  *address = entry ? entry->address : nullptr;
  if (found) *found = result;
  return entry ? Status::Success : Status::SymbolNotFound;
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
DRIVER_API Status cuGetExportTable(const void** table, const void*) {
  if (table) *table = nullptr;
  const InDriver inside;
  return assay_not_supported(
      "a CUDA runtime that is linked into the program (it needs undocumented tables of the driver through "
      "cuGetExportTable; link with `nvcc -cudart shared`)");
}
