#include "prove/recorded_call.h"

#include <algorithm>

namespace assay::prove {

namespace {

constexpr int64_t kAllocationAlignment = 256;  // bytes: an allocation begins at a multiple of it

}

std::optional<std::pair<std::string, int64_t>> pointer_at(const protocol::RecordedLaunchEvent& launch,
                                                          uint32_t at) {
  for (const protocol::RecordedPointer& pointer : launch.pointers)
    if (pointer.at == at) return std::pair{pointer.to.label, number(pointer.to.offset)};
  return std::nullopt;
}

std::optional<int64_t> allocated_at(const protocol::RecordedLaunchEvent& launch, uint32_t at) {
  for (const protocol::RecordedPointer& pointer : launch.pointers)
    if (pointer.at == at) return number(pointer.to.bytes);
  return std::nullopt;
}

bool is_own_allocation(const contract::Contract& contract, const std::string& array) {
  return array != "workspace" && !contract.tensor(array);
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

bool may_overlap(const RecordedCall& call) {
  const auto stream = [](const Operation& operation) {
    return std::visit([](const auto& event) { return event.stream; }, operation);
  };
  return std::any_of(call.operations.begin(), call.operations.end(), [&](const Operation& operation) {
    const auto* launch = std::get_if<protocol::RecordedLaunchEvent>(&operation);
    return (launch && launch->early) || stream(operation) != stream(call.operations.front());
  });
}

contract::Shape given_in(const contract::Contract& contract,
                         const std::map<std::string, contract::Scalar, std::less<>>& scalars) {
  contract::Shape given;
  for (const contract::TensorSpec& tensor : contract.tensors) {
    if (!tensor.optional) continue;
    const auto presence = scalars.find(contract::presence_of(tensor.name));
    given[contract::presence_of(tensor.name)] = presence == scalars.end() || presence->second.as_int() != 0;
  }
  return given;
}

void add_operation(RecordedCall& call, const protocol::Event& event, const contract::Contract& contract,
                   const trial::Condition& condition) {
  const auto from_data = [&](protocol::RecordedPlace& place) {
    const contract::TensorSpec* tensor = contract.tensor(place.label);
    const int64_t align = tensor ? trial::alignment_of(*tensor, condition) : kAllocationAlignment;
    if (align < kAllocationAlignment) place.offset -= static_cast<uint64_t>(align);
  };
  if (const auto* launch = std::get_if<protocol::RecordedLaunchEvent>(&event)) {
    protocol::RecordedLaunchEvent own = *launch;
    for (protocol::RecordedPointer& pointer : own.pointers) from_data(pointer.to);
    call.operations.emplace_back(std::move(own));
  }
  if (const auto* fill = std::get_if<protocol::RecordedFillEvent>(&event)) {
    protocol::RecordedFillEvent own = *fill;
    from_data(own.to);
    call.operations.emplace_back(std::move(own));
  }
  if (const auto* copy = std::get_if<protocol::RecordedCopyEvent>(&event)) {
    protocol::RecordedCopyEvent own = *copy;
    from_data(own.to);
    from_data(own.from);
    call.operations.emplace_back(std::move(own));
  }
}

}  // namespace assay::prove
