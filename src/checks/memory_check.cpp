// Bounds and alignment.
#include <fmt/format.h>

#include "checks/checks.h"

namespace assay::checks {

namespace {

std::string_view verb(vgpu::AccessKind kind) {
  constexpr std::string_view kVerbs[] = {"reads", "writes", "updates (atomic)", "updates (atomic)"};
  return kVerbs[static_cast<size_t>(kind)];
}

std::string_view name_of(ptx::Space space) {
  constexpr std::string_view kNames[] = {"", "generic", "global", "shared", "local", "constant", "parameter"};
  return kNames[static_cast<size_t>(space)];
}

class MemoryCheck final : public vgpu::Listener {
 public:
  MemoryCheck(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) override {
    if (info.what == vgpu::Violation::OutOfBounds) out_of_bounds(warp, inst, info);
    if (info.what == vgpu::Violation::Misaligned) misaligned(warp, inst, info);
  }

 private:
  FindingLog& log_;
  const vgpu::Memory& memory_;

  std::string place(const vgpu::ViolationInfo& info, Json& evidence) const {
    if (info.space == ptx::Space::Global || info.space == ptx::Space::Const || info.space == ptx::Space::Generic)
      return describe_address(memory_, info.address, evidence);
    evidence["address"] = fmt::format("0x{:x}", info.address);
    return fmt::format("offset {} of {} memory", info.address, name_of(info.space));
  }

  void out_of_bounds(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) {
    const Occurrence occurrence{"out-of-bounds", &inst};
    if (log_.counted(occurrence)) return;
    Finding finding = finding_at("out-of-bounds", warp, inst, info.first_lane);
    finding.evidence["bytes"] = info.bytes;
    finding.evidence["space"] = name_of(info.space);
    finding.message = fmt::format("{} {} bytes at {}", verb(info.kind), info.bytes, place(info, finding.evidence));
    if (!info.detail.empty()) finding.message += fmt::format(": {}", info.detail);
    log_.add(key_of("out-of-bounds", warp, inst), std::move(finding), occurrence);
  }

  void misaligned(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) {
    const Occurrence occurrence{"misaligned", &inst};
    if (log_.counted(occurrence)) return;
    Finding finding = finding_at("misaligned", warp, inst, info.first_lane);
    finding.evidence["bytes"] = info.bytes;
    finding.message = fmt::format("{} {} bytes at {}, an address that is not a multiple of {}", verb(info.kind),
                                  info.bytes, place(info, finding.evidence), info.bytes);
    log_.add(key_of("misaligned", warp, inst), std::move(finding), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_memory_check(FindingLog& log, const vgpu::Memory& memory) {
  return std::make_unique<MemoryCheck>(log, memory);
}

}  // namespace assay::checks
