#include "assayd/shape_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace assay::assayd {

std::string shape_class(const contract::Contract& contract, const contract::Shape& shape) {
  std::string text;
  for (const contract::Dim& dim : contract.dims) {
    const auto found = shape.find(dim.name);
    if (dim.is_constant() || found == shape.end()) continue;
    const auto size = static_cast<uint64_t>(std::max<int64_t>(0, found->second));
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ",", dim.name,
                        size <= 1 ? "=" : "<=", size == 0 ? 0 : std::bit_ceil(size));
  }
  return text.empty() ? "fixed" : text;
}

}  // namespace assay::assayd
