#include "checks/race_handover.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checks/race_state.h"
#include "checks/wait_loops.h"

namespace assay::checks {

namespace {

constexpr uint64_t kHandedBytes = 4;
constexpr size_t kMostHanded =
    1 << 16;  // words; more than any protocol has, and then nothing new is remembered
constexpr uint8_t kWholeWord = 0xf;

}  // namespace

bool HandOvers::polls(const vgpu::Kernel& kernel) {
  const auto [found, fresh] = polls_.emplace(kernel.function, false);
  if (!fresh) return found->second;
  const ptx::Function& code = *kernel.function->ptx;
  for (uint32_t i = 0; i < code.body.size() && !found->second; ++i) {
    const ptx::Instruction& inst = code.body[i];
    const bool volatile_load = inst.opcode == ptx::Opcode::ld && inst.has(ptx::Mod::volatile_) &&
                               !inst.has(ptx::Mod::shared) && !inst.has(ptx::Mod::local);
    found->second = volatile_load && is_awaited(code, i);
  }
  return found->second;
}

void HandOvers::clear() {
  writes_.clear();
  heard_.clear();
  polls_.clear();  // functions may lie elsewhere by now
}

void HandOvers::heard(const Actor& actor, const Write& flag) {
  auto& known = heard_[key_of(actor.who, 0)][key_of(flag.touch.who, flag.touch.lane)];
  if (known.number < flag.number) known = flag;
}

bool HandOvers::is_unordered(const Actor& actor, const Write& datum) const {
  const Who a = datum.touch.who, b = actor.who;
  BlockState& state = actor.state;
  if (a.block() < state.operation->first || a.block() > state.operation->last) return false;
  const bool same_block = a.block() == b.block();
  if (same_block && a.warp() == b.warp()) return false;
  const auto reader = heard_.find(key_of(b, 0));
  if (reader == heard_.end()) return false;
  const auto flag = reader->second.find(key_of(a, datum.touch.lane));
  if (flag == reader->second.end() || flag->second.number <= datum.number ||
      flag->second.touch.who.tick() != a.tick())
    return false;
  if (same_block && a.tick() < state.clock.warps[b.warp()].known[a.warp()]) return false;
  return !state.clock.is_before(a.block(), a.warp(), a.tick(), b.warp());
}

bool HandOvers::access(const RaceContext& context, const Actor& actor, bool awaited, Unordered& found) {
  const vgpu::Access& access = *actor.access;
  const bool is_atomic =
      access.kind == vgpu::AccessKind::Atomic || access.kind == vgpu::AccessKind::Reduction;
  for (uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const vgpu::Address address = access.addresses[lane], word = address / kHandedBytes * kHandedBytes;
    const Touch touch{.who = actor.who, .lane = static_cast<uint8_t>(lane), .bytes = kWholeWord};
    if (access.kind == vgpu::AccessKind::Load) {
      const auto write = writes_.find(word);
      if (write == writes_.end()) continue;
      if (awaited) {
        heard(actor, write->second);
      } else if (is_unordered(actor, write->second)) {
        found = {write->second.touch, touch, word};
        return true;
      }
      continue;
    }
    const std::byte* now = context.memory.host(address, access.bytes);
    const bool same = !is_atomic && access.values && now &&
                      std::memcmp(now, access.values + size_t{lane} * access.bytes, access.bytes) == 0;
    if (same) continue;
    ++number_;
    if (writes_.size() < kMostHanded || writes_.contains(word)) writes_[word] = {touch, number_};
  }
  return false;
}

}  // namespace assay::checks
