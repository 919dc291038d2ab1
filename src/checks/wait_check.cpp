#include "checks/wait_check.h"

namespace assay::checks {

void WaitCheck::on_operation(const vgpu::OperationInfo& info) {
  std::lock_guard lock(mutex_);
  order_.begin(info);
  last_ = info.id;
}

bool WaitCheck::is_waited_for(uint64_t id) {
  const Operation* operation = order_.find(id);
  const Operation* point = order_.find(host_point_);
  return operation && point && order_.is_before(*operation, *point);
}

void WaitCheck::submitted(uint64_t operation, Work work) {
  std::lock_guard lock(mutex_);
  if (!is_waited_for(operation)) unwaited_[operation] = std::move(work);
}

// The streams announce a wait as an operation of its own, just before.
void WaitCheck::on_host_wait(std::span<const uint64_t>) {
  std::lock_guard lock(mutex_);
  if (!counts_waits_) return;
  host_point_ = last_;
  std::erase_if(unwaited_, [&](const auto& item) { return is_waited_for(item.first); });
}

std::vector<uint64_t> WaitCheck::unwaited() {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> ids;
  for (const auto& [id, work] : unwaited_) ids.push_back(id);
  return ids;
}

void WaitCheck::count_waits(bool on) {
  std::lock_guard lock(mutex_);
  counts_waits_ = on;
}

void WaitCheck::end() {
  std::lock_guard lock(mutex_);
  if (unwaited_.empty()) return;
  evidence::Launch evidence;
  evidence.kernel = unwaited_.begin()->second.kernel;
  evidence.operations = unwaited_.size();
  log_.add(std::string(to_string(Kind::UnwaitedWork)),
           finding_of(Kind::UnwaitedWork, {}, std::move(evidence)), {Kind::UnwaitedWork});
}

}  // namespace assay::checks
