#include "checks/race_order.h"

#include <algorithm>

#include "checks/race_shadow.h"

namespace assay::checks {

namespace {

constexpr uint32_t kNoChain = ~uint32_t{0};

}  // namespace

Operation& OperationOrder::begin(const vgpu::OperationInfo& info) {
  Operation operation;
  operation.id = info.id;
  operation.stream = info.stream;
  operation.kind = info.kind;
  operation.known.assign(tails_.size(), 0);
  std::vector<uint32_t> preferred;
  const auto take_over = [](std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
    for (size_t c = 0; c < from.size(); ++c) to[c] = std::max(to[c], from[c]);
  };
  if (info.overlaps != 0) operation.known_early.assign(tails_.size(), 0);
  for (uint64_t id : info.after) {
    const auto found = operations_.find(id);
    if (found == operations_.end()) continue;
    const Operation& before = found->second;
    take_over(operation.known, before.known);
    preferred.push_back(before.chain);
    if (info.overlaps == 0) continue;
    // Of the grid that it may overlap: what came before that one, which may have been early too.
    const bool overlaps = id == info.overlaps;
    const bool both = overlaps && !before.known_early.empty() && !before.waits;
    std::vector<uint32_t> known = both ? before.known_early : before.known;
    if (overlaps) known[before.chain] = std::min(known[before.chain], before.place - 1);
    take_over(operation.known_early, known);
  }
  return place_in_chain(std::move(operation), std::move(preferred));
}

Operation& OperationOrder::begin_alone() {
  Operation operation;
  operation.id = ++alone_;
  operation.kind = vgpu::OperationInfo::Kind::Grid;
  operation.known = tails_;
  return place_in_chain(std::move(operation), {});
}

Operation& OperationOrder::begin_by_host(std::vector<uint32_t> known, uint64_t submitted) {
  Operation operation;
  operation.id = ++by_host_;
  operation.kind = vgpu::OperationInfo::Kind::HostCall;
  operation.by_host = true;
  operation.submitted = submitted;
  operation.chain = kNoChain;
  operation.known = std::move(known);
  const uint64_t id = operation.id;
  return operations_.insert_or_assign(id, std::move(operation)).first->second;
}

// It continues a chain whose last operation it knows, that of a direct predecessor first; else it begins one.
Operation& OperationOrder::place_in_chain(Operation operation, std::vector<uint32_t> preferred) {
  for (uint32_t c = 0; c < tails_.size(); ++c) preferred.push_back(c);
  auto chain = static_cast<uint32_t>(tails_.size());
  for (uint32_t c : preferred) {
    if (operation.known[c] != tails_[c]) continue;
    chain = c;
    break;
  }
  if (chain == tails_.size()) {
    tails_.push_back(0);
    operation.known.push_back(0);
  }
  operation.chain = chain;
  operation.place = ++tails_[chain];
  operation.known[chain] = operation.place;
  if (!operation.known_early.empty()) operation.known_early.resize(operation.known.size());
  const uint64_t id = operation.id;
  return operations_.insert_or_assign(id, std::move(operation)).first->second;
}

bool OperationOrder::number(Operation& operation, uint64_t count) {
  const bool fits = next_number_ + count <= kMostBlocks;
  if (!fits) {
    next_number_ = 1;
    by_number_.clear();
  }
  operation.first = next_number_;
  next_number_ += static_cast<uint32_t>(std::min<uint64_t>(count, kMostBlocks - 1));
  operation.last = next_number_ - 1;
  by_number_[operation.last] = &operation;
  return fits;
}

Operation* OperationOrder::find(uint64_t id) {
  const auto found = operations_.find(id);
  return found == operations_.end() ? nullptr : &found->second;
}

const Operation* OperationOrder::of_block(uint32_t number) const {
  const auto found = by_number_.lower_bound(number);
  return found != by_number_.end() && found->second->first <= number ? found->second : nullptr;
}

bool OperationOrder::is_before(const Operation& a, const Operation& b, bool waited) const {
  // What the host asks for comes after what it did before; which of the two is met first does not matter.
  if (a.by_host && b.by_host) return true;
  if (a.by_host) return b.id > a.submitted;
  if (b.by_host && a.id > b.submitted) return true;
  const std::vector<uint32_t>& known = waited || b.known_early.empty() ? b.known : b.known_early;
  return a.chain < known.size() && a.place <= known[a.chain];
}

bool OperationOrder::is_before(uint32_t number, const Operation& b, bool waited) const {
  const Operation* a = of_block(number);
  return !a || is_before(*a, b, waited);
}

uint32_t OperationOrder::ordered_below(const Operation& b) const {
  // Only what is recent can still be under way on another stream; the rest is taken to be ordered.
  uint32_t below = b.first ? b.first : next_number_;
  constexpr int kRecent = 512;
  int seen = 0;
  for (auto it = by_number_.rbegin(); it != by_number_.rend() && seen < kRecent; ++it) {
    if (it->second != &b && !is_before(*it->second, b, false)) below = std::min(below, it->second->first);
    seen += !it->second->by_host;
  }
  return below;
}

}  // namespace assay::checks
