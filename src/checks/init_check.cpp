// Undefined values, reported where they matter: when they decide a branch or an address, reach memory
// that outlives the block, or take part in a collective. A value that is merely loaded is not reported:
// compilers hoist loads out of conditions. A shuffle that reads a lane which takes no part brings such a
// value too: reductions over part of a warp do that, and throw it away.
#include "checks/checks.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

// How the value takes effect; None: the violation is not about undefined values.
evidence::Undefined effect_of(vgpu::Violation what) {
  switch (what) {
    case vgpu::Violation::UndefinedBranch:
      return evidence::Undefined::Branch;
    case vgpu::Violation::UndefinedAddress:
      return evidence::Undefined::Address;
    case vgpu::Violation::UndefinedStore:
      return evidence::Undefined::Store;
    case vgpu::Violation::UndefinedCollective:
      return evidence::Undefined::Collective;
    default:
      return evidence::Undefined::None;
  }
}

class InitCheck final : public vgpu::Listener {
 public:
  InitCheck(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  bool wants_accesses(ptx::Space) const override { return false; }
  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst,
                    const vgpu::ViolationInfo& info) override {
    if (info.what == vgpu::Violation::InvalidShuffle || info.what == vgpu::Violation::AbsentLane)
      return remember(warp, inst, info.what == vgpu::Violation::AbsentLane);
    const evidence::Undefined effect = effect_of(info.what);
    const Occurrence occurrence{Kind::Uninitialized, &inst};
    if (effect == evidence::Undefined::None || log_.counted(occurrence)) return;
    log_.add(key_of(Kind::Uninitialized, warp, inst), finding_about(warp, inst, info, effect), occurrence);
  }

  void on_launch_end(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(mutex_);
    shuffles_.erase(info.id);
  }

 private:
  FindingLog& log_;
  const vgpu::Memory& memory_;
  std::mutex mutex_;
  struct Shuffle {
    vgpu::SourcePlace place;
    bool named = false;  // its mask names the lane
  };
  std::map<uint64_t, Shuffle> shuffles_;  // by launch: the first that read a lane which takes no part

  void remember(const vgpu::Warp& warp, const vgpu::Inst& inst, bool named) {
    std::lock_guard lock(mutex_);
    const auto [it, fresh] = shuffles_.try_emplace(warp.grid->info.id);
    if (!fresh && (it->second.named || !named)) return;
    it->second = {vgpu::place_of(*warp.grid->program, *warp.frame->function, inst), named};
  }

  std::optional<Shuffle> shuffle_of(const vgpu::Warp& warp) {
    std::lock_guard lock(mutex_);
    const auto found = shuffles_.find(warp.grid->info.id);
    if (found == shuffles_.end()) return std::nullopt;
    return found->second;
  }

  // The value may have come from a shuffle. If the shuffle's mask names lanes that never reach it, that is
  // the mistake, and the finding is about the shuffle.
  Finding finding_about(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& violation,
                        evidence::Undefined effect) {
    auto [where, code] = code_at(warp, inst, violation.first_lane);
    const std::optional<Shuffle> shuffle = shuffle_of(warp);
    const Where at = shuffle ? Where{shuffle->place.file, static_cast<int>(shuffle->place.line)} : Where{};
    if (shuffle && shuffle->named) {
      evidence::Synchronisation evidence;
      evidence.code = std::move(code);
      evidence.matters_at = std::move(where);
      evidence.undefined = effect;
      return finding_of(Kind::BarrierDivergence, at, std::move(evidence));
    }
    evidence::Access evidence;
    evidence.code = std::move(code);
    evidence.undefined = effect;
    if (effect == evidence::Undefined::Store) evidence.place = place_of(memory_, violation.address);
    if (shuffle) evidence.shuffle = at;
    return finding_of(Kind::Uninitialized, std::move(where), std::move(evidence));
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_init_check(FindingLog& log, const vgpu::Memory& memory, CheckSet) {
  return std::make_unique<InitCheck>(log, memory);
}

}  // namespace assay::checks
