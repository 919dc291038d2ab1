// Barriers and collectives: threads that should meet and do not.
#include "checks/checks.h"

namespace assay::checks {

namespace {

class SyncCheck final : public vgpu::Listener {
 public:
  explicit SyncCheck(FindingLog& log) : log_(log) {}

  bool wants_accesses(ptx::Space) const override { return false; }
  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst,
                    const vgpu::ViolationInfo& info) override {
    if (info.what == vgpu::Violation::BarrierDivergence) add(Kind::BarrierDivergence, warp, inst, info);
    if (info.what == vgpu::Violation::Deadlock) add(Kind::Deadlock, warp, inst, info);
  }

 private:
  FindingLog& log_;

  void add(Kind kind, const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& violation) {
    const Occurrence occurrence{kind, &inst};
    if (log_.counted(occurrence)) return;
    auto [where, code] = code_at(warp, inst, violation.first_lane);
    evidence::Synchronisation evidence;
    evidence.code = std::move(code);
    evidence.lanes = violation.lanes;
    evidence.detail = violation.detail;
    log_.add(key_of(kind, warp, inst), finding_of(kind, std::move(where), std::move(evidence)), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_sync_check(FindingLog& log, const vgpu::Memory&, CheckSet) {
  return std::make_unique<SyncCheck>(log);
}

}  // namespace assay::checks
