#include "vgpu/access.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fmt/format.h"
#include "vgpu/program.h"
#include "vgpu/run.h"

namespace assay::vgpu {
namespace {

// `initialised` holds one byte of undefined bits a byte (call parameters).
constexpr uint64_t kPoisonwise = kBytewise - 1;

uint32_t first_of(uint32_t lanes) {
  return static_cast<uint32_t>(std::countr_zero(lanes));
}

struct LanePlace {
  std::byte* host = nullptr;  // null: nothing there
  uint8_t* initialised = nullptr;
  uint64_t bit = kBytewise;
  ptx::Space space = ptx::Space::Global;
  Address shown = 0;
};

bool within(uint64_t offset, uint64_t bytes, uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

LanePlace in_global(Warp& w, const MemoryForm& form, Address address) {
  LanePlace place{.space = form.space == ptx::Space::Const ? ptx::Space::Const : ptx::Space::Global,
                  .shown = address};
  const SiteRange* range = &w.sites[form.site];
  if (address < range->low || address >= range->high || range->high - address < form.bytes)
    if (!refill(w, form.site, address, form.bytes)) return place;
  if (range->high - address < form.bytes) return place;
  place.host =
      reinterpret_cast<std::byte*>(static_cast<uint64_t>(static_cast<int64_t>(address) + range->delta));
  place.initialised = range->initialised;
  place.bit = address - range->low;
  return place;
}

LanePlace in_shared(Warp& w, const MemoryForm& form, Address address) {
  const uint64_t tag = address >> kSharedRankShift;
  const uint64_t offset = address & ((uint64_t{1} << kSharedRankShift) - 1);
  LanePlace place{.space = ptx::Space::Shared, .shown = address};
  const Block* block = w.block;
  if (tag != 0) {
    if (tag - 1 == w.block->rank)
      place.shown = offset;
    else if (tag - 1 < w.block->cluster->blocks.size())
      block = &w.block->cluster->blocks[tag - 1];
    else
      return place;
    if (block != w.block && has_ended(*block)) return place;
  }
  const uint32_t reserved = w.grid->reserved_shared;
  const bool is_reserved =
      offset >= reserved && within(offset - reserved, form.bytes, w.grid->reserved_bytes);
  if (!is_reserved && !within(offset, form.bytes, block->shared_bytes)) return place;
  place.host = block->shared + offset;
  if (block->shared_initialised != nullptr) place.initialised = block->shared_initialised + offset;
  return place;
}

LanePlace in_local(Warp& w, const MemoryForm& form, Address offset, uint32_t lane) {
  LanePlace place{.space = ptx::Space::Local, .shown = offset};
  if (!within(offset, form.bytes, w.local_stride)) return place;
  const uint64_t at = uint64_t{lane} * w.local_stride + offset;
  place.host = w.local + at;
  if (w.local_initialised != nullptr) place.initialised = w.local_initialised + at;
  return place;
}

LanePlace in_kernel_parameters(Warp& w, const MemoryForm& form, Address offset) {
  LanePlace place{.space = ptx::Space::Param, .shown = offset};
  if (form.kind != AccessKind::Load || !within(offset, form.bytes, w.grid->parameter_bytes)) return place;
  place.host = const_cast<std::byte*>(w.grid->parameters) + offset;
  return place;
}

LanePlace in_call_parameters(Warp& w, const MemoryForm& form, Address offset, uint32_t lane) {
  LanePlace place{.space = ptx::Space::Param, .shown = offset};
  const uint32_t stride = w.frame->function->param_bytes;
  if (!within(offset, form.bytes, stride)) return place;
  place.host = w.frame->params + uint64_t{lane} * stride + offset;
  if (w.frame->params_poison != nullptr) {
    place.initialised = w.frame->params_poison + uint64_t{lane} * stride + offset;
    place.bit = kPoisonwise;
  }
  return place;
}

LanePlace find_place(Warp& w, const MemoryForm& form, Address address, uint32_t lane) {
  switch (form.space) {
    case ptx::Space::Shared:
      return in_shared(w, form, address);
    case ptx::Space::Local:
      return in_local(w, form, address, lane);
    case ptx::Space::Param:
      return form.kernel_parameter ? in_kernel_parameters(w, form, address)
                                   : in_call_parameters(w, form, address, lane);
    case ptx::Space::Generic:
      if (address >= kSharedWindow && address < kSharedWindowEnd)
        return in_shared(w, form, address - kSharedWindow);
      if (address >= kLocalWindow && address < kLocalWindowEnd)
        return in_local(w, form, address - kLocalWindow, lane);
      if (address >= kParamWindow && address < kParamWindowEnd)
        return in_kernel_parameters(w, form, address - kParamWindow);
      return in_global(w, form, address);
    default:
      return in_global(w, form, address);
  }
}

const char* name_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::Load:
      return "load";
    case AccessKind::Store:
      return "store";
    case AccessKind::Atomic:
      return "atomic";
    case AccessKind::Reduction:
      return "reduction";
  }
  return "access";
}

const char* name_of(ptx::Space space) {
  switch (space) {
    case ptx::Space::Shared:
      return "shared memory";
    case ptx::Space::Local:
      return "local memory";
    case ptx::Space::Param:
      return "parameters";
    case ptx::Space::Const:
      return "constant memory";
    default:
      return "global memory";
  }
}

std::string describe_shared(const Warp& w, Address address) {
  const uint64_t tag = address >> kSharedRankShift;
  const auto& blocks = w.block->cluster->blocks;
  if (tag > blocks.size()) return fmt::format("the cluster has {} blocks", blocks.size());
  if (tag != 0 && has_ended(blocks[tag - 1]))
    return fmt::format("block {} of the cluster has ended", tag - 1);
  return fmt::format("the block has {} bytes", w.block->shared_bytes);
}

std::string describe_place(const Warp& w, const LanePlace& place) {
  switch (place.space) {
    case ptx::Space::Shared:
      return describe_shared(w, place.shown);
    case ptx::Space::Local:
      return fmt::format("the thread has {} bytes", w.local_stride);
    case ptx::Space::Param:
      return "outside the parameters, or read-only";
    default:
      break;
  }
  const auto near = w.grid->memory->nearest(place.shown);
  if (!near) return "no allocation is near";
  const std::string what = fmt::format("`{}` ({} bytes at {:#x}{})", near->label, near->size, near->base,
                                       near->live ? "" : ", freed");
  if (place.shown < near->base) return fmt::format("{} bytes before {}", near->base - place.shown, what);
  const uint64_t offset = place.shown - near->base;
  if (offset < near->size) return fmt::format("{} bytes into {}", offset, what);
  return fmt::format("{} bytes past the end of {}", offset - near->size, what);
}

FaultInfo fault_of(const Warp& w, const MemoryForm& form, const LanePlace& place, bool misaligned,
                   uint32_t alignment) {
  const std::string access = fmt::format("{} of {} bytes at {:#x} of {}", name_of(form.kind), form.bytes,
                                         place.shown, name_of(place.space));
  if (misaligned)
    return {FaultInfo::Kind::MisalignedAddress, fmt::format("{} is not aligned to {}", access, alignment)};
  return {FaultInfo::Kind::IllegalAddress, fmt::format("{}: {}", access, describe_place(w, place))};
}

// The access is reported and left out; the launch goes on, and ends as the unwatched one would.
void leave_out(Warp& w, const Inst& inst, uint32_t lane, FaultInfo fault) {
  std::lock_guard lock(w.grid->fault_mutex);
  if (w.grid->has_left_out.exchange(true)) return;
  fault.message = fmt::format("{}: {}", describe(w, inst, lane), fault.message);
  w.grid->left_out = std::move(fault);
}

bool listened(const Warp& w) {
  return w.grid->watched && !w.grid->listeners.empty();
}

// The guard of something that writes is undefined: whether it happens is undefined.
void check_guard(Warp& w, const Inst& inst, const MemoryForm& form, const Address* addresses) {
  if (w.poison == nullptr || form.kind == AccessKind::Load) return;
  if (const uint32_t undefined = w.poisoned(inst.guard) & w.active)
    report(w, inst, form, Violation::UndefinedBranch, undefined, addresses, "the guard is undefined");
}

// One pass answers for each half; how the halves lie to each other says the rest.
Shape shape_of(const Address* at, uint64_t bytes) {
  bool straight = true, same = true;
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const Address first = at[l & 16];
    straight &= at[l] == first + (l & 15) * bytes;
    same &= at[l] == first;
  }
  const uint64_t step = at[16] - at[0];
  if (straight) return step == 16 * bytes ? Shape::Unit : Shape::HalfUnit;
  if (same) return step == 0 ? Shape::Uniform : Shape::HalfUniform;
  return Shape::Other;
}

uint64_t extend(uint64_t bits, uint32_t bytes, bool sign) {
  if (bytes >= 8) return bits;
  const unsigned shift = 64 - 8 * bytes;
  return sign ? static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift) : bits << shift >> shift;
}

}  // namespace

void lane_addresses(Warp& w, const Inst& inst, const MemoryForm& form, Address* addresses) {
  if (form.base_bytes == 4) {
    const uint32_t* base = w.plane<uint32_t>(inst.a);
    for (uint32_t l = 0; l < kWarpSize; ++l)
      addresses[l] = static_cast<uint32_t>(base[l] + static_cast<uint64_t>(inst.imm));
  } else {
    const uint64_t* base = w.plane<uint64_t>(inst.a);
    for (uint32_t l = 0; l < kWarpSize; ++l) addresses[l] = base[l] + static_cast<uint64_t>(inst.imm);
  }
  if (form.frame_relative)
    for (uint32_t l = 0; l < kWarpSize; ++l) addresses[l] += w.frame->local_base;
}

bool refill(Warp& w, uint32_t site, Address address, uint64_t bytes) {
  const Memory& memory = *w.grid->memory;
  Worker& worker = *w.worker;
  if (const uint64_t now = memory.generation(); worker.generation != now) {
    worker.generation = now;
    for (SiteRange& range : worker.sites) range = {};
  }
  if (!w.grid->bounds.allows(site, address)) return false;
  const LiveRange found = memory.locate(address, bytes);
  if (found.low >= found.high) return false;
  SiteRange& range = w.sites[site];
  range.low = found.low;
  range.high = found.high;
  range.delta = reinterpret_cast<int64_t>(found.backing) - static_cast<int64_t>(found.low);
  range.initialised = found.initialised;
  return true;
}

bool resolve(Warp& w, const Inst& inst, const MemoryForm& form, uint32_t lanes, const Address* addresses,
             uint32_t alignment, LaneAccess& access) {
  access.lanes = 0;
  uint32_t misaligned = 0, outside = 0, undefined = 0;
  if (w.poison != nullptr) {
    undefined = w.poisoned(inst.a) & lanes;
    check_guard(w, inst, form, addresses);
  }
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t l = first_of(rest);
    const LanePlace place = find_place(w, form, addresses[l], l);
    const bool crooked = (addresses[l] & (alignment - 1)) != 0;
    if (place.host == nullptr || crooked) {
      if (!listened(w)) {
        FaultInfo info = fault_of(w, form, place, crooked, alignment);
        fault(w, inst, info.kind, l, std::move(info.message));
        return false;
      }
      if (w.grid->options->fault_after_violation && !w.grid->has_left_out)
        leave_out(w, inst, l, fault_of(w, form, place, crooked, alignment));
      (crooked ? misaligned : outside) |= 1u << l;
      // Reported here, so reads of what it should have written are not reported again.
      if (place.initialised != nullptr && form.kind != AccessKind::Load)
        write_undefined(place.initialised, place.bit, 0, form.bytes, nullptr);
      access.address[l] = place.shown;
      access.space[l] = place.space;
      continue;
    }
    access.lanes |= 1u << l;
    access.host[l] = place.host;
    access.address[l] = place.shown;
    access.initialised[l] = place.initialised;
    access.first_bit[l] = place.bit;
    access.space[l] = place.space;
  }
  if ((undefined | misaligned | outside) == 0) return true;
  auto report_lanes = [&](uint32_t which, Violation what, const char* detail) {
    if (which == 0) return;
    MemoryForm seen = form;
    if (seen.space == ptx::Space::Generic) seen.space = access.space[first_of(which)];
    report(w, inst, seen, what, which, access.address, detail);
  };
  report_lanes(undefined, Violation::UndefinedAddress, "the address is undefined");
  if (undefined != 0) w.poisoned(inst.a) &= ~undefined;  // once is enough
  report_lanes(misaligned & ~undefined, Violation::Misaligned, "not aligned to the access's size");
  report_lanes(outside & ~undefined, Violation::OutOfBounds, "");
  return true;
}

void announce(Warp& w, const Inst& inst, const MemoryForm& form, ptx::Space space, Shape shape,
              uint32_t lanes, const Address* addresses, const std::byte* values) {
  const Access access{form.kind,  space,     form.order, form.scope,        shape,        lanes,
                      form.bytes, addresses, values,     form.asynchronous, form.mbarrier};
  deliver_pending_loads(w);
  for (Listener* listener : w.grid->listeners_of(space)) listener->on_access(w, inst, access);
}

void announce(Warp& w, const Inst& inst, const MemoryForm& form, ptx::Space space, uint32_t lanes,
              const Address* addresses, const std::byte* values) {
  if (w.grid->listeners_of(space).empty()) return;
  const Shape shape = lanes == kAllLanes ? shape_of(addresses, form.bytes) : Shape::Other;
  announce(w, inst, form, space, shape, lanes, addresses, values);
}

void announce(Warp& w, const Inst& inst, const MemoryForm& form, const LaneAccess& access,
              const std::byte* values) {
  if (!listened(w)) return;
  for (uint32_t rest = access.lanes; rest != 0;) {
    const ptx::Space space = access.space[first_of(rest)];
    uint32_t same = 0;
    for_lanes(rest, [&](uint32_t l) { same |= uint32_t{access.space[l] == space} << l; });
    announce(w, inst, form, space, same, access.address, values);
    rest &= ~same;
  }
}

void report(Warp& w, const Inst& inst, const MemoryForm& form, Violation what, uint32_t lanes,
            const Address* addresses, const char* detail) {
  if (lanes == 0) return;
  const uint32_t first = first_of(lanes);
  const ViolationInfo info{.what = what,
                           .lanes = lanes,
                           .first_lane = first,
                           .address = addresses != nullptr ? addresses[first] : 0,
                           .bytes = form.bytes,
                           .space = form.space,
                           .kind = form.kind,
                           .detail = detail};
  for (Listener* listener : listeners(w)) listener->on_violation(w, inst, info);
}

Access ShapedLoad::access(ptx::Space space, Address* addresses) const {
  using Four = Address __attribute__((vector_size(32)));  // compilers see no vector here by themselves
  const bool steps = shape == Shape::Unit || shape == Shape::HalfUnit;
  const Address step = steps ? bytes : shape == Shape::Other ? distance() : 0;
  Four low = Four{0, step, 2 * step, 3 * step} + first, high = low + (second - first);
  for (uint32_t l = 0; l < kWarpSize / 2; l += 4) {
    std::memcpy(addresses + l, &low, sizeof low);
    std::memcpy(addresses + kWarpSize / 2 + l, &high, sizeof high);
    low += 4 * step;
    high += 4 * step;
  }
  return {AccessKind::Load, space, Order::Weak, Scope::Thread, shape,
          kAllLanes,        bytes, addresses,   nullptr,       false};
}

void Listener::on_loads(const Warp& w, ptx::Space space, std::span<const ShapedLoad> loads) {
  alignas(64) Address addresses[kWarpSize];
  for (const ShapedLoad& load : loads) on_access(w, *load.inst, load.access(space, addresses));
}

// ---- Undefined bytes ----

bool read_undefined(const uint8_t* map, uint64_t bit, uint64_t skip, uint32_t bytes, uint8_t* mask) {
  std::memset(mask, 0, bytes);
  if (map == nullptr) return false;
  uint8_t any = 0;
  for (uint32_t b = 0; b < bytes; ++b) {
    if (bit == kPoisonwise)
      mask[b] = map[skip + b];
    else if (bit == kBytewise)
      mask[b] = map[skip + b] != 0 ? 0 : 0xff;
    else
      mask[b] = (map[(bit + skip + b) / 8] >> ((bit + skip + b) % 8) & 1) != 0 ? 0 : 0xff;
    any |= mask[b];
  }
  return any != 0;
}

bool all_initialised(const uint8_t* map, uint64_t first, uint64_t count) {
  const uint64_t end = first + count;
  for (uint64_t at = first; at < end;) {
    if (at % 8 == 0 && end - at >= 8) {
      if (map[at / 8] != 0xff) return false;
      at += 8;
      continue;
    }
    if ((map[at / 8] >> (at % 8) & 1) == 0) return false;
    ++at;
  }
  return true;
}

void set_initialised(uint8_t* map, uint64_t first, uint64_t count, bool value) {
  for (uint64_t at = first; at < first + count;) {
    if (at % 8 == 0 && first + count - at >= 8) {
      __atomic_store_n(map + at / 8, value ? 0xff : 0, __ATOMIC_RELAXED);
      at += 8;
      continue;
    }
    // Other lanes of the host's threads own the rest of this byte.
    const uint64_t end = std::min(first + count, (at / 8 + 1) * 8);
    const auto mask = static_cast<uint8_t>(((1u << (end - at)) - 1) << (at % 8));
    if (value)
      __atomic_fetch_or(map + at / 8, mask, __ATOMIC_RELAXED);
    else
      __atomic_fetch_and(map + at / 8, static_cast<uint8_t>(~mask), __ATOMIC_RELAXED);
    at = end;
  }
}

void write_undefined(uint8_t* map, uint64_t bit, uint64_t skip, uint32_t bytes, const uint8_t* mask) {
  if (map == nullptr) return;
  if (bit == kPoisonwise) {
    for (uint32_t b = 0; b < bytes; ++b) map[skip + b] = mask != nullptr ? mask[b] : 0;
  } else if (bit == kBytewise) {
    for (uint32_t b = 0; b < bytes; ++b) map[skip + b] = mask != nullptr && mask[b] != 0 ? 0 : 1;
  } else if (mask == nullptr) {
    set_initialised(map, bit + skip, bytes, true);
  } else {
    for (uint32_t b = 0; b < bytes; ++b) set_initialised(map, bit + skip + b, 1, mask[b] == 0);
  }
}

void read_shadow(const Warp& w, PlaneOffset plane, uint32_t lane_bytes, uint32_t lane, uint8_t* bits) {
  if (w.poison == nullptr || (w.poison[plane / 64] >> lane & 1) == 0)
    std::memset(bits, 0, lane_bytes);
  else
    std::memcpy(bits, w.shadow + plane + lane * lane_bytes, lane_bytes);
}

void write_shadow(Warp& w, PlaneOffset plane, uint32_t lane_bytes, uint32_t lane, const uint8_t* bits) {
  if (w.poison == nullptr) return;
  bool any = false;
  for (uint32_t b = 0; b < lane_bytes; ++b) any |= bits[b] != 0;
  uint32_t& poison = w.poisoned(plane);
  poison = (poison & ~(1u << lane)) | uint32_t{any} << lane;
  if (any) std::memcpy(w.shadow + plane + lane * lane_bytes, bits, lane_bytes);
}

// ---- Loads and stores, lane by lane ----

namespace {

// Gives a lane of a register the `bytes` at `from`, extended to its width.
void put(Warp& w, PlaneOffset plane, uint32_t lane_bytes, uint32_t lane, const void* from, uint32_t bytes,
         bool sign) {
  std::byte* to = w.planes + plane + lane * lane_bytes;
  if (bytes >= lane_bytes) {
    std::memcpy(to, from, lane_bytes);
    return;
  }
  uint64_t value = 0;
  std::memcpy(&value, from, bytes > 8 ? 8 : bytes);
  value = extend(value, bytes, sign);
  std::memset(to, 0, lane_bytes);
  std::memcpy(to, &value, lane_bytes > 8 ? 8 : lane_bytes);
}

// The same for its undefined bits: the copies of an undefined sign bit are undefined too.
void put_shadow(Warp& w, PlaneOffset plane, uint32_t lane_bytes, uint32_t lane, const uint8_t* from,
                uint32_t bytes, bool sign) {
  uint8_t bits[16] = {};
  if (bytes >= lane_bytes) {
    std::memcpy(bits, from, lane_bytes);
  } else {
    uint64_t value = 0;
    std::memcpy(&value, from, bytes > 8 ? 8 : bytes);
    value = extend(value, bytes, sign);
    std::memcpy(bits, &value, lane_bytes > 8 ? 8 : lane_bytes);
  }
  write_shadow(w, plane, lane_bytes, lane, bits);
}

const Inst* after(Warp& w, const Inst& inst, const MemoryForm& form) {
  if (form.poll && ++w.polls > kPollsBeforeYield) return yield(w, &inst + 1);
  return &inst + 1;
}

}  // namespace

const Inst* load_by_lane(Warp& w, const Inst& inst, uint32_t lanes) {
  const MemoryForm& form = *static_cast<const MemoryForm*>(inst.extra);
  Address addresses[kWarpSize];
  lane_addresses(w, inst, form, addresses);
  LaneAccess access;
  if (!resolve(w, inst, form, lanes, addresses, access)) return nullptr;
  announce(w, inst, form, access, nullptr);
  const uint8_t whole[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                             0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  const std::byte zero[16] = {};
  const uint32_t size = form.element_bytes;
  for_lanes(lanes, [&](uint32_t l) {
    const bool there = (access.lanes >> l & 1) != 0;
    for (uint32_t e = 0; e < form.count; ++e) {
      const uint32_t width = form.register_bytes[e];
      put(w, form.planes[e], width, l, there ? access.host[l] + e * size : zero, size, form.sign_extend);
      if (w.poison == nullptr) continue;
      uint8_t mask[16] = {};
      if (there) read_undefined(access, l, e * size, size, mask);
      // What was left out has been reported; uses of its value are not reported again.
      put_shadow(w, form.planes[e], width, l, mask, size, form.sign_extend);
    }
  });
  if (w.poison != nullptr) {
    if (const uint32_t doubt = w.poisoned(inst.guard) & w.active)
      for (uint32_t e = 0; e < form.count; ++e)
        for_lanes(doubt,
                  [&](uint32_t l) { write_shadow(w, form.planes[e], form.register_bytes[e], l, whole); });
  }
  return after(w, inst, form);
}

namespace {

bool defines(const ptx::Instruction& inst, uint32_t reg) {
  if (inst.operands.empty()) return false;
  const ptx::Operand& to = inst.operands.front();
  const auto is_it = [&](const ptx::Operand& o) {
    return o.kind == ptx::Operand::Kind::Register && o.index == reg;
  };
  return is_it(to) || to.pair == reg || std::any_of(to.elements.begin(), to.elements.end(), is_it);
}

// Whether element `e` of a store is what a load just before it, in the same basic block, brought.
bool is_copy(const ptx::Function& function, const Inst& inst, uint32_t e) {
  const auto& body = function.body;
  if (inst.source >= body.size() || body[inst.source].operands.size() < 2) return false;
  const ptx::Operand& value = body[inst.source].operands[1];
  const uint32_t reg = value.kind == ptx::Operand::Kind::Vector ? value.elements.at(e).index : value.index;
  if (reg == ptx::kNone) return false;
  uint32_t at = inst.source;
  while (at > 0 && !defines(body[at - 1], reg)) --at;
  if (at == 0 || body[at - 1].opcode != ptx::Opcode::ld) return false;
  for (const ptx::Instruction& other : body)
    for (const ptx::Operand& operand : other.operands)
      if (operand.kind == ptx::Operand::Kind::Label && operand.index >= at && operand.index <= inst.source)
        return false;
  return true;
}

// Some bytes whole and others wanting: a structure's padding, or the unused half of a pair.
bool is_partial(const uint8_t* bits, uint32_t size) {
  const auto whole = static_cast<uint32_t>(std::count(bits, bits + size, 0));
  return whole != 0 && whole + static_cast<uint32_t>(std::count(bits, bits + size, 0xff)) == size;
}

}  // namespace

const Inst* store_by_lane(Warp& w, const Inst& inst, uint32_t lanes) {
  const MemoryForm& form = *static_cast<const MemoryForm*>(inst.extra);
  Address addresses[kWarpSize];
  lane_addresses(w, inst, form, addresses);
  LaneAccess access;
  if (!resolve(w, inst, form, lanes, addresses, access)) return nullptr;
  const uint32_t size = form.element_bytes;
  std::byte values[kWarpSize * 32];
  for_lanes(access.lanes, [&](uint32_t l) {
    for (uint32_t e = 0; e < form.count; ++e)
      std::memcpy(values + l * form.bytes + e * size, w.planes + form.planes[e] + l * form.register_bytes[e],
                  size);
  });
  announce(w, inst, form, access, values);
  uint32_t undefined = 0;
  for_lanes(access.lanes, [&](uint32_t l) {
    std::memcpy(access.host[l], values + l * form.bytes, form.bytes);
    if (w.poison == nullptr) return;
    for (uint32_t e = 0; e < form.count; ++e) {
      if ((w.poisoned(form.planes[e]) >> l & 1) == 0) {
        write_undefined(access, l, e * size, size, nullptr);
        continue;
      }
      uint8_t bits[16];
      read_shadow(w, form.planes[e], form.register_bytes[e], l, bits);
      // Reported here, so later reads of it are not reported again. Copies of structures take their
      // padding along, whose content does not matter: it is judged where it is used.
      const bool outlives_block = access.space[l] == ptx::Space::Global &&
                                  !(is_partial(bits, size) && is_copy(*w.frame->function->ptx, inst, e));
      write_undefined(access, l, e * size, size, outlives_block ? nullptr : bits);
      for (uint32_t b = 0; b < size; ++b)
        if (bits[b] != 0 && outlives_block) undefined |= 1u << l;
    }
  });
  if (undefined != 0) {
    MemoryForm seen = form;
    seen.space = ptx::Space::Global;
    report(w, inst, seen, Violation::UndefinedStore, undefined, access.address, "");
  }
  return after(w, inst, form);
}

bool in_constant_variable(const GridContext& grid, Address address) {
  const auto& variables = grid.program->module.variables;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (variables[v].space != ptx::Space::Const) continue;
    const Address base = grid.program->variables[v];
    if (address >= base && address - base < variables[v].size) return true;
  }
  return false;
}

}  // namespace assay::vgpu
