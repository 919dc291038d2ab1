// Files side by side in one text, as `tar` writes and reads them (POSIX ustar, plain files only).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace assay::monitor {

struct TarFile {
  std::string name;  // at most 100 bytes
  std::string bytes;
};

std::string write_tar(const std::vector<TarFile>& files, int64_t unix_seconds);
// An Error for a header whose sum is wrong, for another kind of entry, and for a text that ends too soon.
Result<std::vector<TarFile>> read_tar(std::string_view text);

}  // namespace assay::monitor
