// Barriers and collectives: threads that should meet and do not.
#include <fmt/format.h>

#include "checks/checks.h"

namespace assay::checks {

namespace {

class SyncCheck final : public vgpu::Listener {
 public:
  explicit SyncCheck(FindingLog& log) : log_(log) {}

  bool hears_accesses(ptx::Space) const override { return false; }
  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst,
                    const vgpu::ViolationInfo& info) override {
    switch (info.what) {
      case vgpu::Violation::BarrierDivergence:
        return add("barrier-divergence", warp, inst, info, "");
      case vgpu::Violation::Deadlock:
        return add("deadlock", warp, inst, info, "waits for threads that never come");
      default:
        return;
    }
  }

 private:
  FindingLog& log_;

  void add(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst,
           const vgpu::ViolationInfo& info, std::string_view message) {
    const Occurrence occurrence{kind, &inst};
    if (log_.counted(occurrence)) return;
    Finding finding = finding_at(kind, warp, inst, info.first_lane);
    finding.evidence["lanes"] = fmt::format("{:08x}", info.lanes);
    finding.message = message.empty()
                          ? std::string(info.detail)
                          : fmt::format("{}{}{}", message, info.detail.empty() ? "" : ": ", info.detail);
    log_.add(key_of(kind, warp, inst), std::move(finding), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_sync_check(FindingLog& log, const vgpu::Memory&, CheckSet) {
  return std::make_unique<SyncCheck>(log);
}

}  // namespace assay::checks
