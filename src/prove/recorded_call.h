// What one call of the subject asked of the device, and how its numbers are read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "contract/contract.h"
#include "protocol/event.h"
#include "trial/trial.h"

namespace assay::prove {

using Operation =
    std::variant<protocol::RecordedLaunchEvent, protocol::RecordedFillEvent, protocol::RecordedCopyEvent>;

struct RecordedCall {
  contract::Shape shape;
  std::vector<Operation> operations;
  // Of each optional tensor, by presence_of(): 1 where the call was given it, 0 where it was given a null pointer.
  contract::Shape given{};
  // Arrays that lie in the memory of another (a call in place, inputs at one address), and that other one.
  std::map<std::string, std::string> lies_in{};
};

inline int64_t number(uint64_t value) {
  return static_cast<int64_t>(value);
}

// Parameters, by their offset in bytes. The event has room for them.
inline int64_t word(const protocol::RecordedLaunchEvent& launch, uint32_t at) {
  return static_cast<int32_t>(launch.words[at / 4]);
}
inline int64_t pair(const protocol::RecordedLaunchEvent& launch, uint32_t at) {
  return number(launch.words[at / 4] | uint64_t{launch.words[at / 4 + 1]} << 32);
}

// The array that a parameter points to, and the offset from the start of its data; none: it is not a device address.
std::optional<std::pair<std::string, int64_t>> pointer_at(const protocol::RecordedLaunchEvent& launch,
                                                          uint32_t at);
// Bytes of the allocation that a parameter points into.
std::optional<int64_t> allocated_at(const protocol::RecordedLaunchEvent& launch, uint32_t at);
// Whether an array is none that the contract gives the call: the host code allocated it.
bool is_own_allocation(const contract::Contract& contract, const std::string& array);
bool has_clusters(const protocol::RecordedLaunchEvent& launch);

// Of a fill or a copy.
const protocol::RecordedPlace& destination(const Operation& operation);
// Of one row; none: several rows, which need not be contiguous.
std::optional<int64_t> filled_bytes(const Operation& operation);

// Whether operations of the call may run at the same time: on several streams, or because one need not wait for what is before
// it.
bool may_overlap(const RecordedCall& call);

// What a call with these scalars was given of the optional tensors.
contract::Shape given_in(const contract::Contract& contract,
                         const std::map<std::string, contract::Scalar, std::less<>>& scalars);

// Adds what an event asks for, if it is an operation. Places are counted from where the data of their buffer begins in its
// allocation, which depends on how the tensors of the call are aligned.
void add_operation(RecordedCall& call, const protocol::Event& event, const contract::Contract& contract,
                   const trial::Condition& condition);

}  // namespace assay::prove
