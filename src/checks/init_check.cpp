// Undefined values, reported where they matter: when they decide a branch or an address, reach memory
// that outlives the block, or take part in a collective. A value that is merely loaded is not reported:
// compilers hoist loads out of conditions.
#include <fmt/format.h>

#include "checks/checks.h"

namespace assay::checks {

namespace {

struct Consequence {
  vgpu::Violation what;
  std::string_view message;
};

constexpr Consequence kConsequences[] = {
    {vgpu::Violation::UndefinedBranch, "a branch depends on a value that nothing wrote"},
    {vgpu::Violation::UndefinedAddress, "an address depends on a value that nothing wrote"},
    {vgpu::Violation::UndefinedStore, "stores a value that depends on memory or registers that nothing wrote"},
    {vgpu::Violation::UndefinedCollective, "a warp-wide operation uses a value that nothing wrote"},
};

class InitCheck final : public vgpu::Listener {
 public:
  InitCheck(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) override {
    for (const Consequence& consequence : kConsequences) {
      if (consequence.what != info.what) continue;
      const Occurrence occurrence{"uninitialized", &inst};
      if (log_.counted(occurrence)) return;
      Finding finding = finding_at("uninitialized", warp, inst, info.first_lane);
      finding.message = consequence.message;
      if (info.what == vgpu::Violation::UndefinedStore)
        finding.message += fmt::format(", to {}", describe_address(memory_, info.address, finding.evidence));
      log_.add(key_of("uninitialized", warp, inst), std::move(finding), occurrence);
    }
  }

 private:
  FindingLog& log_;
  const vgpu::Memory& memory_;
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_init_check(FindingLog& log, const vgpu::Memory& memory) {
  return std::make_unique<InitCheck>(log, memory);
}

}  // namespace assay::checks
