#include "cli/suppressions.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/symbol.h"

namespace assay::cli {
namespace {

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// "kernel.cu:14", "kernel.cu" or "14".
bool read_place(const std::string& text, Suppression& suppression) {
  const size_t colon = text.rfind(':');
  const auto is_number = [](const std::string& digits) {
    return !digits.empty() && digits.size() < 9 &&
           digits.find_first_not_of("0123456789") == std::string::npos;
  };
  if (is_number(text)) {
    suppression.line = std::stoi(text);
    return true;
  }
  suppression.file = text.substr(0, colon);
  if (colon == std::string::npos) return true;
  if (!is_number(text.substr(colon + 1))) return false;
  suppression.line = std::stoi(text.substr(colon + 1));
  return true;
}

}  // namespace

Result<std::vector<Suppression>> read_suppressions(const std::string& path) {
  std::vector<Suppression> all;
  if (path.empty()) return all;
  std::ifstream file(path);
  if (!file) return Error{"cannot be read", path, 0, 0};
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Suppression suppression{"", "*"};
    std::string more;
    if (!(words >> suppression.kind)) continue;
    words >> suppression.kernel;
    if (words >> more && !read_place(more, suppression))
      return Error{"expected FILE:LINE, FILE or LINE after KIND and KERNEL", path, number, 0};
    if (words >> more) return Error{"expected KIND, and perhaps KERNEL and FILE:LINE", path, number, 0};
    const auto fits = [&](const KindInfo& kind) { return matches(suppression.kind, std::string(kind.name)); };
    if (std::none_of(kinds().begin(), kinds().end(), fits))
      return Error{fmt::format("unknown kind of finding `{}`; docs/findings.md lists them", suppression.kind),
                   path, number, 0};
    all.push_back(suppression);
  }
  return all;
}

bool is_suppressed(const Finding& finding, const std::vector<Suppression>& suppressions) {
  const std::string& kernel = kernel_of(finding);
  const std::string plain = plain_name(kernel), kind(to_string(finding.kind));
  return std::any_of(suppressions.begin(), suppressions.end(), [&](const Suppression& suppression) {
    const bool here = (suppression.line == 0 || suppression.line == finding.where.line) &&
                      (suppression.file == "*" || matches("*" + suppression.file, finding.where.file));
    return here && matches(suppression.kind, kind) &&
           (matches(suppression.kernel, kernel) || matches(suppression.kernel, plain));
  });
}

}  // namespace assay::cli
