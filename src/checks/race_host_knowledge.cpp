#include "checks/race_host_knowledge.h"

#include <algorithm>

namespace assay::checks {

namespace {

constexpr size_t kMostKnowledge = 1024;  // versions that are kept

}  // namespace

void HostKnowledge::learn(const Operation& operation) {
  std::vector<uint32_t> known = operation.known;
  if (!known_.empty()) {
    known.resize(std::max(known.size(), known_.back().size()));
    for (size_t c = 0; c < known_.back().size(); ++c) known[c] = std::max(known[c], known_.back()[c]);
    if (known == known_.back()) return;
  }
  known_.push_back(std::move(known));
  if (known_.size() > kMostKnowledge) known_.pop_front();
  ++version_;
}

bool HostKnowledge::is_known_done(const Operation& operation) const {
  if (known_.empty()) return false;
  const auto& known = known_.back();
  return operation.chain < known.size() && operation.place <= known[operation.chain];
}

std::vector<uint32_t> HostKnowledge::at(uint64_t version) const {
  if (version == 0) return {};
  const uint64_t forgotten = version_ - known_.size();
  return known_[std::max(version, forgotten + 1) - forgotten - 1];
}

}  // namespace assay::checks
