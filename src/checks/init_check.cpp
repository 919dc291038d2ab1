// Undefined values, reported where they matter: when they decide a branch or an address, reach memory
// that outlives the block, or take part in a collective. A value that is merely loaded is not reported:
// compilers hoist loads out of conditions. A shuffle that reads a lane which takes no part brings such a
// value too: reductions over part of a warp do that, and throw it away.
#include <fmt/format.h>

#include "checks/checks.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

struct Consequence {
  vgpu::Violation what;
  std::string_view message;
};

constexpr Consequence kConsequences[] = {
    {vgpu::Violation::UndefinedBranch, "a branch depends on a value that nothing wrote"},
    {vgpu::Violation::UndefinedAddress, "an address depends on a value that nothing wrote"},
    {vgpu::Violation::UndefinedStore,
     "stores a value that depends on memory or registers that nothing wrote"},
    {vgpu::Violation::UndefinedCollective, "a warp-wide operation uses a value that nothing wrote"},
};

class InitCheck final : public vgpu::Listener {
 public:
  InitCheck(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  bool hears_accesses(ptx::Space) const override { return false; }
  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst,
                    const vgpu::ViolationInfo& info) override {
    if (info.what == vgpu::Violation::InvalidShuffle || info.what == vgpu::Violation::AbsentLane)
      return remember(warp, inst, info.what == vgpu::Violation::AbsentLane);
    for (const Consequence& consequence : kConsequences) {
      if (consequence.what != info.what) continue;
      const Occurrence occurrence{"uninitialized", &inst};
      if (log_.counted(occurrence)) return;
      Finding finding = finding_at("uninitialized", warp, inst, info.first_lane);
      finding.message = consequence.message;
      if (info.what == vgpu::Violation::UndefinedStore)
        finding.message += fmt::format(", to {}", describe_address(memory_, info.address, finding.evidence));
      add_shuffle(warp, finding);
      log_.add(key_of("uninitialized", warp, inst), std::move(finding), occurrence);
    }
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

  // Where such a value may have come from. A mask that names lanes which never come is the mistake itself.
  void add_shuffle(const vgpu::Warp& warp, Finding& finding) {
    std::lock_guard lock(mutex_);
    const auto found = shuffles_.find(warp.grid->info.id);
    if (found == shuffles_.end()) return;
    const auto& [place, named] = found->second;
    finding.evidence["shuffle"] = {{"file", place.file}, {"line", place.line}};
    if (!named) {
      finding.message +=
          fmt::format("; the shuffle at {}:{} reads lanes that take no part, and what it brings is undefined",
                      place.file, place.line);
      return;
    }
    finding.kind = "barrier-divergence";
    finding.message = fmt::format(
        "the mask of a shuffle names lanes that do not reach it; what it brings from them is undefined, and "
        "matters at {}:{}: {}",
        finding.where.file, finding.where.line, finding.message);
    finding.where = {place.file, static_cast<int>(place.line)};
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_init_check(FindingLog& log, const vgpu::Memory& memory, CheckSet) {
  return std::make_unique<InitCheck>(log, memory);
}

}  // namespace assay::checks
