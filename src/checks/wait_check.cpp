#include "checks/wait_check.h"

#include <fmt/format.h>

#include "base/symbol.h"

namespace assay::checks {

namespace {

using Kind = vgpu::OperationInfo::Kind;

std::string describe(const WaitCheck::Work& work) {
  return work.kind == Kind::Grid ? fmt::format("kernel {}", short_name(work.kernel)) : "a copy to the host";
}

}  // namespace

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

// The streams tell of a wait as an operation of its own, just before.
void WaitCheck::on_host_wait(std::span<const uint64_t>) {
  std::lock_guard lock(mutex_);
  if (!hears_) return;
  host_point_ = last_;
  std::erase_if(unwaited_, [&](const auto& item) { return is_waited_for(item.first); });
}

std::vector<uint64_t> WaitCheck::unwaited() {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> ids;
  for (const auto& [id, work] : unwaited_) ids.push_back(id);
  return ids;
}

void WaitCheck::hear(bool on) {
  std::lock_guard lock(mutex_);
  hears_ = on;
}

void WaitCheck::end() {
  std::lock_guard lock(mutex_);
  std::vector<Work> all;
  for (const auto& [id, work] : unwaited_) all.push_back(work);
  if (all.empty()) return;
  Finding finding;
  finding.kind = "unwaited-work";
  finding.severity = Severity::Warning;
  finding.message =
      fmt::format("the program ended without waiting for {}{}: what {} may never have come",
                  describe(all.front()), all.size() > 1 ? fmt::format(" and {} more", all.size() - 1) : "",
                  all.size() > 1 ? "they write" : "it writes");
  if (!all.front().kernel.empty()) finding.evidence["kernel"] = all.front().kernel;
  finding.evidence["operations"] = all.size();
  log_.add("unwaited-work", std::move(finding), {"unwaited-work"});
}

}  // namespace assay::checks
