#include "assayer/constants.h"

#include <filesystem>
#include <set>

#include "base/file.h"
#include "lint/constants.h"
#include "subject/device_code.h"

namespace assay::assayer {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostSource = 1 << 20;  // bytes of source files that are read

}  // namespace

SizeConstants read_constants(const contract::Contract& contract, const subject::Subject& subject) {
  SizeConstants found;
  if (const auto texts = subject::device_code(subject, contract.kernel.arch)) {
    for (const std::string& text : *texts)
      if (const auto module = ptx::parse(text, "ptx")) lint::constants_of(*module, found);
  }
  // The contract's own sources before the headers that they include.
  std::vector<std::string> paths;
  for (const std::string& source : contract.kernel.sources)
    paths.push_back(fs::absolute(contract.resolve(source)).lexically_normal().string());
  paths.insert(paths.end(), subject.files.begin(), subject.files.end());
  std::set<std::string> seen;
  std::size_t size = 0;
  for (const std::string& path : paths) {
    if (path.ends_with(".ptx") || !seen.insert(path).second) continue;
    const std::string text = text_of(path);
    size += text.size();
    if (size > kMostSource) break;
    lint::constants_of(text, found);
  }
  return found;
}

}  // namespace assay::assayer
