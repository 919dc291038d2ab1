#include "vgpu/mbarrier.h"

#include <bit>
#include <cstring>

#include "vgpu/async.h"
#include "vgpu/copies.h"
#include "vgpu/run.h"

namespace assay::vgpu {
namespace {

BarrierWord read(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return BarrierWord::unpack(word);
}

BarrierWord fresh(uint32_t count) {
  return {.expected = count, .pending = count, .transactions = 0, .phase = false, .valid = true};
}

uint64_t write(std::byte* at, const BarrierWord& barrier) {
  const uint64_t word = barrier.pack();
  std::memcpy(at, &word, sizeof word);
  return word;
}

const Inst* misuse(Warp& w, const Inst& inst, uint32_t lane, const char* what) {
  for (Listener* listener : listeners(w))
    listener->on_violation(
        w, inst,
        {.what = Violation::BarrierDivergence, .lanes = 1u << lane, .first_lane = lane, .detail = what});
  return fault(w, inst, FaultInfo::Kind::IllegalInstruction, lane, what);
}

// What an arrival of one lane does; a message when the manual leaves it undefined.
const char* apply(BarrierWord& b, const BarrierForm& form, uint32_t value) {
  const uint32_t arrivals = form.expects || !form.has_count ? 1 : value;
  switch (form.action) {
    case BarrierAction::ExpectTx:
      b.transactions += static_cast<int32_t>(value);
      break;
    case BarrierAction::CompleteTx:
      b.transactions -= static_cast<int32_t>(value);
      b.settle();
      break;
    case BarrierAction::ArriveDrop:
    case BarrierAction::Arrive:
      if (form.expects) b.transactions += static_cast<int32_t>(value);
      if (arrivals == 0 || arrivals > b.pending) return "more arrivals at an mbarrier than its phase awaits";
      if (form.no_complete && arrivals == b.pending) return "mbarrier arrive.noComplete completes the phase";
      b.pending -= arrivals;
      if (form.action == BarrierAction::ArriveDrop)
        b.expected -= arrivals < b.expected ? arrivals : b.expected;
      b.settle();
      break;
    default:
      break;
  }
  if (b.transactions > static_cast<int32_t>(BarrierWord::kMost) ||
      b.transactions < -static_cast<int32_t>(BarrierWord::kMost))
    return "the transaction count of an mbarrier overflows";
  return nullptr;
}

bool has_passed(const BarrierWord& b, const BarrierForm& form, Warp& w, uint32_t lane) {
  const bool awaited = form.parity ? (w.plane<uint32_t>(form.count)[lane] & 1) != 0
                                   : BarrierWord::unpack(w.plane<uint64_t>(form.count)[lane]).phase;
  return b.phase != awaited;
}

// Reported to listeners as the form says. Without a scope that is the block, but programs arrive at other
// blocks' mbarriers that way, and the hardware does not tell the two apart: where there are other blocks, it
// is the cluster.
void report_access(Warp& w, const Inst& inst, const BarrierForm& form, LaneAccess access, uint32_t lanes,
                   Order order) {
  MemoryForm seen = form.form;
  seen.order = order;
  if (!form.has_scope && w.block->cluster->blocks.size() > 1) seen.scope = Scope::Cluster;
  access.lanes &= lanes;
  std::byte words[kWarpSize * sizeof(uint64_t)] = {};  // several threads may write the same: no race
  const bool begins = form.action == BarrierAction::Init;
  for (uint32_t l = 0; begins && form.has_count && l < kWarpSize; ++l)
    write(words + l * sizeof(uint64_t), fresh(w.plane<uint32_t>(form.count)[l]));
  announce(w, inst, seen, access, begins ? words : nullptr);
}

const Inst* test_wait(Warp& w, const Inst& inst, const BarrierForm& form, const LaneAccess& access,
                      uint32_t lanes) {
  uint32_t passed = 0;
  for (uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    finish_bulk_for(w, access.host[l]);
    const BarrierWord b = read(access.host[l]);
    if (!b.valid) return misuse(w, inst, l, "mbarrier wait on an object that was not initialised");
    passed |= uint32_t{has_passed(b, form, w, l)} << l;
  }
  if (w.grid->watched) {  // a wait that has to be repeated has acquired nothing
    report_access(w, inst, form, access, passed, form.form.order);
    report_access(w, inst, form, access, ~passed, Order::Weak);
  }
  uint32_t& d = w.mask(form.state);
  d = (d & ~lanes) | passed;
  if (w.poison != nullptr) w.poisoned(form.state) &= ~lanes;
  if (passed == lanes) return &inst + 1;
  ++w.polls;
  return yield(w, &inst + 1);
}

}  // namespace

void complete_transaction(std::byte* word, uint32_t bytes) {
  BarrierWord b = read(word);
  b.transactions -= static_cast<int32_t>(bytes);
  b.settle();
  write(word, b);
}

bool arrive_once(std::byte* word) {
  BarrierWord b = read(word);
  if (!b.valid || b.pending == 0) return false;
  --b.pending;
  b.settle();
  write(word, b);
  return true;
}

const Inst* barrier_action(Warp& w, const Inst& inst) {
  const auto& form = *static_cast<const BarrierForm*>(inst.extra);
  const uint32_t lanes = w.lanes_of(inst);
  if (lanes == 0) return &inst + 1;
  Address addresses[kWarpSize];
  lane_addresses(w, inst, form.form, addresses);
  LaneAccess access;
  if (!resolve(w, inst, form.form, lanes, addresses, access)) return nullptr;
  if (form.action == BarrierAction::TestWait) return test_wait(w, inst, form, access, lanes);
  if (w.grid->watched) report_access(w, inst, form, access, kAllLanes, form.form.order);
  for (uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    std::byte* at = access.host[l];
    const uint32_t value = form.has_count ? w.plane<uint32_t>(form.count)[l] : 0;
    write_undefined(access, l, 0, 8, nullptr);
    if (form.action == BarrierAction::Init) {
      if (value == 0 || value > BarrierWord::kMost)
        return misuse(w, inst, l, "mbarrier.init with a count out of range");
      write(at, fresh(value));
      continue;
    }
    BarrierWord b = read(at);
    if (!b.valid) return misuse(w, inst, l, "mbarrier operation on an object that was not initialised");
    if (form.action == BarrierAction::Invalidate) {
      std::memset(at, 0, 8);
      continue;
    }
    const uint64_t before = b.pack();
    if (const char* wrong = apply(b, form, value)) return misuse(w, inst, l, wrong);
    write(at, b);
    w.block->cluster->barriers +=
        b.phase != BarrierWord::unpack(before).phase;  // a waiting thread can continue
    if (form.has_state) {
      w.plane<uint64_t>(form.state)[l] = before;
      if (w.poison != nullptr) w.poisoned(form.state) &= ~(1u << l);
    }
  }
  return pass_on(w, inst);
}

}  // namespace assay::vgpu
