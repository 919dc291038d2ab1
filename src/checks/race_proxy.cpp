#include "checks/race_proxy.h"

#include <algorithm>
#include <bit>

#include "vgpu/program.h"

namespace assay::checks {

bool has_bulk_copies(const vgpu::Kernel& kernel) {
  const auto has = [](const ptx::Function& function) {
    return std::any_of(function.body.begin(), function.body.end(), [](const ptx::Instruction& inst) {
      return inst.opcode == ptx::Opcode::cp_async_bulk || inst.opcode == ptx::Opcode::cp_reduce_async_bulk;
    });
  };
  const auto& functions = kernel.program->module.functions;
  return std::any_of(functions.begin(), functions.end(), has);
}

void UnfencedWrites::begin(uint32_t bytes) {
  writes_.clear();
  places_.assign((bytes + 3) / 4, 0);
}

void UnfencedWrites::write(Who who, const vgpu::Access& access) {
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const vgpu::Address low = access.addresses[lane], high = low + access.bytes;
    for (uint64_t word = low / 4; word * 4 < high && word < places_.size(); ++word) {
      if (places_[word] == 0) {
        writes_.emplace_back();
        places_[word] = static_cast<uint32_t>(writes_.size());
      }
      writes_[places_[word] - 1] = {who, static_cast<uint32_t>(word), static_cast<uint8_t>(lane)};
    }
  }
}

void UnfencedWrites::fence(const BlockClock& clock, uint32_t warp) {
  const WarpClock& now = clock.warps[warp];
  size_t kept = 0;
  for (const Write& write : writes_) {
    const uint32_t writer = write.who.warp();
    if (writer == warp || write.who.tick() < now.known[writer]) {
      places_[write.word] = 0;
    } else {
      writes_[kept++] = write;
      places_[write.word] = static_cast<uint32_t>(kept);
    }
  }
  writes_.resize(kept);
}

const UnfencedWrites::Write* UnfencedWrites::find(vgpu::Address low, uint64_t bytes) const {
  for (uint64_t word = low / 4; word * 4 < low + bytes && word < places_.size(); ++word)
    if (places_[word] != 0) return &writes_[places_[word] - 1];
  return nullptr;
}

}  // namespace assay::checks
