#include "vgpu/async.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "vgpu/copies.h"
#include "vgpu/mbarrier.h"

namespace assay::vgpu {
namespace {

AsyncCopies& copies_of(Warp& w) {
  if (!w.copies) w.copies = std::make_shared<AsyncCopies>();
  return *w.copies;
}

bool find(Warp& w, const PlaceForm& place, uint32_t lanes, uint32_t alignment, LaneAccess& access) {
  Address addresses[kWarpSize];
  lane_addresses(w, place.at, place.form, addresses);
  return resolve(w, place.at, place.form, lanes, addresses, alignment, access);
}

// Lanes whose size differs are resolved on their own: bounds follow the bytes that are touched.
bool find_sized(Warp& w, const PlaceForm& place, uint32_t lanes, const uint32_t* bytes, uint32_t alignment,
                LaneAccess& access) {
  access.lanes = 0;
  for (uint32_t rest = lanes; rest != 0;) {
    const uint32_t size = bytes[std::countr_zero(rest)];
    uint32_t same = 0;
    for_lanes(rest, [&](uint32_t l) { same |= uint32_t{bytes[l] == size} << l; });
    rest &= ~same;
    if (size == 0) continue;
    Address addresses[kWarpSize];
    lane_addresses(w, place.at, place.form, addresses);
    MemoryForm form = place.form;
    form.bytes = size;
    LaneAccess part;
    if (!resolve(w, place.at, form, same, addresses, alignment, part)) return false;
    access.lanes |= part.lanes;
    for_lanes(part.lanes, [&](uint32_t l) {
      access.host[l] = part.host[l];
      access.address[l] = part.address[l];
      access.initialised[l] = part.initialised[l];
      access.first_bit[l] = part.first_bit[l];
      access.space[l] = part.space[l];
    });
  }
  return true;
}

// Tells listeners of what find_sized found, for those of its lanes that go through with it.
void announce_sized(Warp& w, const PlaceForm& place, uint32_t lanes, const uint32_t* bytes,
                    LaneAccess access) {
  MemoryForm form = place.form;
  for (uint32_t rest = access.lanes & lanes; rest != 0; rest &= ~access.lanes) {
    form.bytes = bytes[std::countr_zero(rest)];
    access.lanes = 0;
    for_lanes(rest, [&](uint32_t l) { access.lanes |= uint32_t{bytes[l] == form.bytes} << l; });
    announce(w, place.at, form, access, nullptr);
  }
}

void take_effect(const SmallCopy& copy) {
  std::memcpy(copy.to, copy.data, copy.bytes);
  write_undefined(copy.initialised, copy.first_bit, 0, copy.bytes, copy.undefined);
}

void take_effect(const BulkCopy& copy) {
  if (copy.reduce != nullptr) {
    copy.reduce(copy.to, copy.from, copy.bytes, copy.exclusive);
  } else if (copy.byte_mask == 0xffff) {
    std::memmove(copy.to, copy.from, copy.bytes);
  } else {
    for (uint32_t b = 0; b < copy.bytes; ++b)
      if ((copy.byte_mask >> (b % 16) & 1) != 0) copy.to[b] = copy.from[b];
  }
  uint8_t mask[16], kept[16];
  for (uint32_t at = 0; at < copy.bytes && copy.to_initialised != nullptr; at += 16) {
    read_undefined(copy.from_initialised, copy.from_bit, at, 16, mask);
    read_undefined(copy.to_initialised, copy.to_bit, at, 16, kept);
    for (uint32_t b = 0; b < 16; ++b) {
      const bool copied = (copy.byte_mask >> b & 1) != 0;
      if (copy.reduce != nullptr)
        mask[b] |= kept[b];
      else if (!copied)
        mask[b] = kept[b];
    }
    write_undefined(copy.to_initialised, copy.to_bit, at, 16, mask);
  }
  if (copy.barrier != nullptr) complete_transaction(copy.barrier, copy.bytes);
}

// Writes that an mbarrier counts are on their way (weak), or have arrived (acquire).
void report_access(Warp& w, const PlaceForm& to, uint32_t lanes, uint32_t bytes, const Address* addresses,
                   const Address* barriers, Order order) {
  const Access access{to.form.kind, ptx::Space::Shared, order,   Scope::Cluster, Shape::Other, lanes,
                      bytes,        addresses,          nullptr, true,           false,        barriers};
  deliver_pending_loads(w);
  for (Listener* listener : w.grid->listeners_of(ptx::Space::Shared)) listener->on_access(w, to.at, access);
}

void report_access(Warp& w, const BulkCopy& copy, Order order) {
  Address addresses[kWarpSize] = {}, barriers[kWarpSize] = {};
  addresses[copy.lane] = copy.address;
  barriers[copy.lane] = copy.barrier_address;
  report_access(w, *copy.target, 1u << copy.lane, copy.bytes, addresses, barriers, order);
}

// A copy is reported twice: when it is issued, and when it has taken effect. For cp.async the second report
// is a store of the thread that waited; lanes that did the same are reported together.
class ArrivedCopies {
 public:
  explicit ArrivedCopies(Warp& w) : warp_(w), listened_(w.grid->watched && !w.grid->listeners.empty()) {}
  ~ArrivedCopies() { flush(); }
  ArrivedCopies(const ArrivedCopies&) = delete;
  ArrivedCopies& operator=(const ArrivedCopies&) = delete;

  void add(const SmallCopy& copy) {
    if (!listened_) return;
    if (copy.target != target_ || (lanes_ >> copy.lane & 1) != 0) flush();
    target_ = copy.target;
    lanes_ |= 1u << copy.lane;
    addresses_[copy.lane] = copy.address;
  }

  void add(const BulkCopy& copy) {
    if (!listened_) return;
    if (copy.target != nullptr) report_access(warp_, copy, Order::Acquire);
    if (copy.source == nullptr) return;
    MemoryForm form = copy.source->form;  // who waited may write its source again
    form.order = Order::Acquire;
    form.bytes = copy.bytes;
    addresses_[copy.lane] = copy.source_address;
    announce(warp_, copy.source->at, form, ptx::Space::Shared, 1u << copy.lane, addresses_, nullptr);
  }

 private:
  void flush() {
    if (lanes_ == 0) return;
    MemoryForm form = target_->form;
    form.asynchronous = false;
    announce(warp_, target_->at, form, ptx::Space::Shared, lanes_, addresses_, nullptr);
    lanes_ = 0;
  }

  Warp& warp_;
  bool listened_;
  const PlaceForm* target_ = nullptr;
  uint32_t lanes_ = 0;
  Address addresses_[kWarpSize] = {};
};

// The copies that `chosen` picks take effect, in the order in which they were issued.
template <class Copy, class F>
void finish(Warp& w, std::vector<Copy>& copies, F&& chosen) {
  ArrivedCopies arrived(w);
  size_t kept = 0;
  for (size_t n = 0; n < copies.size(); ++n) {
    if (chosen(copies[n])) {
      arrived.add(copies[n]);
      take_effect(copies[n]);
    } else {
      copies[kept++] = copies[n];
    }
  }
  copies.resize(kept);
}

}  // namespace

// ---- cp.async ----

const Inst* copy_async(Warp& w, const Inst& inst) {
  const auto& form = *static_cast<const CopyForm*>(inst.extra);
  const uint32_t lanes = w.lanes_of(inst);
  if (lanes == 0) return &inst + 1;
  const uint32_t size = form.to.form.bytes;
  uint32_t bytes[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    bytes[l] = form.has_size ? std::min(w.plane<uint32_t>(form.size)[l], size) : size;
    if (form.has_ignore && (w.mask(form.ignore) >> l & 1) != 0) bytes[l] = 0;
  }
  LaneAccess to, from;
  if (!find_sized(w, form.from, lanes, bytes, size, from)) return nullptr;
  announce_sized(w, form.from, lanes, bytes, from);
  if (!find(w, form.to, lanes, size, to)) return nullptr;
  announce(w, form.to.at, form.to.form, to, nullptr);
  AsyncCopies& copies = copies_of(w);
  const uint8_t in_flight[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  for_lanes(to.lanes, [&](uint32_t l) {
    SmallCopy& copy = copies.small.emplace_back();
    copy.to = to.host[l];
    copy.initialised = to.initialised[l];
    copy.first_bit = to.first_bit[l];
    copy.group = copies.groups[l];
    copy.lane = static_cast<uint8_t>(l);
    copy.target = &form.to;
    copy.address = to.address[l];
    copy.bytes = static_cast<uint8_t>(size);
    std::memset(copy.data, 0, sizeof copy.data);
    std::memset(copy.undefined, 0, sizeof copy.undefined);
    if ((from.lanes >> l & 1) != 0) {
      std::memcpy(copy.data, from.host[l], bytes[l]);
      read_undefined(from, l, 0, bytes[l], copy.undefined);
    }
    write_undefined(to, l, 0, size, in_flight);  // it must not be read before the wait
  });
  return &inst + 1;
}

const Inst* commit_copies(Warp& w, const Inst& inst) {
  AsyncCopies& copies = copies_of(w);
  for_lanes(w.lanes_of(inst), [&](uint32_t l) { ++copies.groups[l]; });
  return &inst + 1;
}

const Inst* wait_copies(Warp& w, const Inst& inst) {
  const uint32_t lanes = w.lanes_of(inst);
  if (!w.copies) return &inst + 1;
  AsyncCopies& copies = *w.copies;
  finish(w, copies.small, [&](const SmallCopy& copy) {
    if ((lanes >> copy.lane & 1) == 0) return false;
    return inst.imm < 0 || copy.group + static_cast<uint64_t>(inst.imm) < copies.groups[copy.lane];
  });
  return &inst + 1;
}

const Inst* arrive_after_copies(Warp& w, const Inst& inst) {
  const auto& form = *static_cast<const PlaceForm*>(inst.extra);
  const uint32_t lanes = w.lanes_of(inst);
  if (lanes == 0) return &inst + 1;
  LaneAccess at;
  if (!find(w, form, lanes, 8, at)) return nullptr;
  if (w.copies)
    finish(w, w.copies->small, [&](const SmallCopy& copy) { return (lanes >> copy.lane & 1) != 0; });
  announce(w, inst, form.form, at, nullptr);
  // Without .noinc the arrival was first added to what the phase awaits, so nothing changes.
  if (inst.imm == 0) return &inst + 1;
  for (uint32_t rest = at.lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    if (!arrive_once(at.host[l]))
      return fault(w, inst, FaultInfo::Kind::IllegalInstruction, l,
                   "arrival at an mbarrier that awaits none, or was not initialised");
  }
  return &inst + 1;
}

// ---- Bulk copies ----

namespace {

constexpr Address kOffset = (Address{1} << kSharedRankShift) - 1;

// A place in a block of the cluster, as listeners see it.
Address seen_in(const Warp& w, const Block& block, Address offset) {
  return &block == w.block ? offset : Address{block.rank + 1} << kSharedRankShift | offset;
}

// A copy that was reported and left out: threads that wait for it continue, and what it should have copied counts
// as there. One mistake is one finding.
void skip_bulk(const CopyForm& form, uint32_t lane, const LaneAccess& to, const LaneAccess& barrier,
               uint32_t bytes) {
  if ((to.lanes >> lane & 1) != 0 && to.initialised[lane] != nullptr)
    for (uint32_t at = 0; at < bytes; at += 16) write_undefined(to, lane, at, 16, nullptr);
  if (form.has_barrier && !form.multicast) complete_transaction(barrier.host[lane], bytes);
}

const Inst* add_bulk(Warp& w, const CopyForm& form, uint32_t lane, const LaneAccess& to,
                     const LaneAccess& from, const LaneAccess& barrier, uint32_t bytes, const Inst& inst) {
  AsyncCopies& copies = copies_of(w);
  BulkCopy copy{.to = to.host[lane],
                .from = from.host[lane],
                .to_initialised = to.initialised[lane],
                .from_initialised = from.initialised[lane],
                .to_bit = to.first_bit[lane],
                .from_bit = from.first_bit[lane],
                .bytes = bytes,
                .group = copies.bulk_groups[lane],
                .lane = lane,
                .byte_mask = form.has_byte_mask ? w.plane<uint16_t>(form.byte_mask)[lane] : uint16_t{0xffff},
                .exclusive = to.space[lane] == ptx::Space::Shared,
                .barrier = form.has_barrier ? barrier.host[lane] : nullptr,
                .target = form.has_barrier ? &form.to : nullptr,
                .address = to.address[lane],
                .barrier_address = form.has_barrier ? barrier.address[lane] : 0,
                .source = !form.has_barrier && from.space[lane] == ptx::Space::Shared &&
                                  from.address[lane] >> kSharedRankShift == 0
                              ? &form.from
                              : nullptr,
                .source_address = from.address[lane],
                .reduce = form.reduce};
  const auto issue = [&](const BulkCopy& one) {
    if (w.grid->watched && one.target != nullptr) report_access(w, one, Order::Weak);
    copies.bulk.push_back(one);
  };
  if (!form.multicast) {
    issue(copy);
    return &inst + 1;
  }
  const Address offset = copy.address & kOffset, barrier_offset = copy.barrier_address & kOffset;
  const uint16_t ranks = w.plane<uint16_t>(form.blocks)[lane];
  for (uint32_t rank = 0; rank < 16; ++rank) {
    if ((ranks >> rank & 1) == 0) continue;
    if (rank >= w.block->cluster->blocks.size())
      return fault(w, inst, FaultInfo::Kind::IllegalInstruction, lane,
                   "multicast to a block that the cluster does not have");
    Block& block = w.block->cluster->blocks[rank];
    BulkCopy one = copy;
    one.address = seen_in(w, block, offset);
    one.barrier_address = seen_in(w, block, barrier_offset);
    one.to = block.shared + offset;
    if (block.shared_initialised != nullptr) one.to_initialised = block.shared_initialised + offset;
    one.barrier = block.shared + barrier_offset;
    if (has_ended(block)) {
      if (!w.grid->watched)
        return fault(w, inst, FaultInfo::Kind::IllegalAddress, lane, "multicast to a block that has ended");
      Address shown[kWarpSize] = {};
      shown[lane] = one.address;
      report(w, form.to.at, form.to.form, Violation::OutOfBounds, 1u << lane, shown, "");
      continue;
    }
    issue(one);
  }
  return &inst + 1;
}

}  // namespace

const Inst* copy_bulk(Warp& w, const Inst& inst) {
  const auto& form = *static_cast<const CopyForm*>(inst.extra);
  const uint32_t lanes = w.lanes_of(inst);
  if (lanes == 0) return &inst + 1;
  const uint32_t* size = w.plane<uint32_t>(form.size);
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(rest));
    if (size[l] % 16 != 0)
      return fault(w, inst, FaultInfo::Kind::MisalignedAddress, l,
                   "the size of a bulk copy is not a multiple of 16");
  }
  LaneAccess to, from, barrier;
  barrier.lanes = lanes;
  if (!find_sized(w, form.from, lanes, size, 16, from) || !find_sized(w, form.to, lanes, size, 16, to))
    return nullptr;
  if (form.has_barrier && !find(w, form.barrier, lanes, 8, barrier)) return nullptr;
  const Inst* next = &inst + 1;
  const uint32_t sound = to.lanes & from.lanes & barrier.lanes;
  announce_sized(w, form.from, sound, size, from);
  if (!form.has_barrier) announce_sized(w, form.to, sound, size, to);
  for_lanes(sound, [&](uint32_t l) {
    if (next == nullptr) return;
    next = add_bulk(w, form, l, to, from, barrier, size[l], inst);
  });
  for_lanes(barrier.lanes & ~sound, [&](uint32_t l) { skip_bulk(form, l, to, barrier, size[l]); });
  return next;
}

const Inst* commit_bulk(Warp& w, const Inst& inst) {
  AsyncCopies& copies = copies_of(w);
  for_lanes(w.lanes_of(inst), [&](uint32_t l) { ++copies.bulk_groups[l]; });
  return &inst + 1;
}

const Inst* wait_bulk(Warp& w, const Inst& inst) {
  const uint32_t lanes = w.lanes_of(inst);
  if (!w.copies) return &inst + 1;
  AsyncCopies& copies = *w.copies;
  finish(w, copies.bulk, [&](const BulkCopy& copy) {
    return copy.barrier == nullptr && (lanes >> copy.lane & 1) != 0 &&
           copy.group + static_cast<uint64_t>(inst.imm) < copies.bulk_groups[copy.lane];
  });
  return &inst + 1;
}

void finish_bulk_for(Warp& w, const std::byte* word) {
  for (Block& block : w.block->cluster->blocks)
    for (Warp& other : block.warps)
      if (other.copies && !other.copies->bulk.empty())
        finish(other, other.copies->bulk, [&](const BulkCopy& copy) { return copy.barrier == word; });
}

// ---- st.async, red.async: they take effect at once, and their bytes have arrived ----

const Inst* store_async(Warp& w, const Inst& inst) {
  const auto& form = *static_cast<const RemoteStoreForm*>(inst.extra);
  const uint32_t lanes = w.lanes_of(inst);
  if (lanes == 0) return &inst + 1;
  LaneAccess to, barrier;
  barrier.lanes = lanes;
  const MemoryForm& memory = form.to.form;
  if (!find(w, form.to, lanes, memory.bytes, to)) return nullptr;
  if (form.has_barrier && !find(w, form.barrier, lanes, 8, barrier)) return nullptr;
  const uint32_t sound = to.lanes & barrier.lanes;
  if (!form.has_barrier)
    announce(w, form.to.at, memory, to, nullptr);
  else if (w.grid->watched && sound != 0)
    for (Order order : {Order::Weak, Order::Acquire})
      report_access(w, form.to, sound, memory.bytes, to.address, barrier.address, order);
  for_lanes(sound, [&](uint32_t l) {
    std::byte value[32];
    uint8_t bits[16];
    for (uint32_t e = 0; e < memory.count; ++e) {
      const uint32_t skip = e * memory.element_bytes;
      std::memcpy(value + skip, w.planes + memory.planes[e] + l * memory.register_bytes[e],
                  memory.element_bytes);
      read_shadow(w, memory.planes[e], memory.register_bytes[e], l, bits);
      write_undefined(to, l, skip, memory.element_bytes, bits);
    }
    if (form.reduce != nullptr)
      form.reduce(to.host[l], value, memory.bytes, to.space[l] == ptx::Space::Shared);
    else
      std::memcpy(to.host[l], value, memory.bytes);
    if (form.has_barrier) complete_transaction(barrier.host[l], memory.bytes);
  });
  return &inst + 1;
}

}  // namespace assay::vgpu
