#include "prove/recorded_call.h"

#include <algorithm>

namespace assay::prove {

std::optional<std::pair<std::string, int64_t>> pointer_at(const protocol::RecordedLaunchEvent& launch,
                                                          uint32_t at) {
  for (const protocol::RecordedPointer& pointer : launch.pointers)
    if (pointer.at == at) return std::pair{pointer.to.label, number(pointer.to.offset)};
  return std::nullopt;
}

bool has_clusters(const protocol::RecordedLaunchEvent& launch) {
  return std::any_of(launch.cluster.begin(), launch.cluster.end(),
                     [](uint32_t blocks) { return blocks > 1; });
}

const protocol::RecordedPlace& destination(const Operation& operation) {
  const auto* fill = std::get_if<protocol::RecordedFillEvent>(&operation);
  return fill ? fill->to : std::get<protocol::RecordedCopyEvent>(operation).to;
}

std::optional<int64_t> filled_bytes(const Operation& operation) {
  const auto* fill = std::get_if<protocol::RecordedFillEvent>(&operation);
  const uint64_t rows = fill ? fill->rows : std::get<protocol::RecordedCopyEvent>(operation).rows;
  if (rows != 1) return std::nullopt;
  return number(fill ? fill->width : std::get<protocol::RecordedCopyEvent>(operation).width);
}

int64_t shift_of(const contract::Contract& contract, const std::string& array) {
  const contract::TensorSpec* tensor = contract.tensor(array);
  return tensor && tensor->align < 256 ? tensor->align : 0;
}

}  // namespace assay::prove
