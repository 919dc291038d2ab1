// Addresses between spaces (cvta, mapa, isspacep), fences, and the hints that change nothing a
// program can see.
#include "vgpu/handlers/access.h"
#include "vgpu/run.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

constexpr uint64_t kOffsetMask = (uint64_t{1} << kSharedRankShift) - 1;

const Inst* nothing(Warp&, const Inst& i) {
  return &i + 1;
}

// ---- Addresses ----

struct Shift {
  static uint64_t apply(uint64_t a, uint64_t by) { return a + by; }
};
struct Same32 {
  static uint32_t apply(uint32_t a) { return a; }
};

void lower_cvta(Lowering& l) {
  const Space space = space_of(*l.inst).space;
  uint64_t window = 0;
  switch (space) {
    case Space::Shared:
      window = kSharedWindow;
      break;
    case Space::Local:
      window = kLocalWindow;
      break;
    case Space::Param:
      window = kParamWindow;
      break;
    case Space::Global:
    case Space::Const:
      break;
    default:
      return l.unsupported("this space");
  }
  const bool wide = ptx::bits_of(l.inst->type()) == 64;
  if (!wide && window != 0) return l.unsupported("32-bit generic addresses");
  const PlaneOffset from = l.source(1);
  const PlaneOffset by = wide ? l.constant(l.inst->has(Mod::to) ? 0 - window : window, 8) : 0;
  const PlaneOffset to = l.dest(0);
  Inst& out = l.emit(wide ? map2<Shift, uint64_t, uint64_t, uint64_t> : map1<Same32, uint32_t, uint32_t>);
  out.dst = to;
  out.a = from;
  out.b = by;
}

// The window's base is in `imm`: 0 for addresses in the shared space itself.
template <class T>
const Inst* mapa(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  T* d = w.plane<T>(i.dst);
  const T* a = w.plane<T>(i.a);
  const uint32_t* rank = w.plane<uint32_t>(i.b);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const uint64_t tag = uint64_t{rank[l]} + 1;
    const uint64_t at = static_cast<uint64_t>(i.imm) + (tag << kSharedRankShift) + (a[l] & kOffsetMask);
    d[l] = (lanes >> l & 1) != 0 ? static_cast<T>(at) : d[l];
  }
  spread_poison<T>(w, i, lanes, i.a, i.b);
  return &i + 1;
}

template <class T>
const Inst* block_rank(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  uint32_t* d = w.plane<uint32_t>(i.dst);
  const T* a = w.plane<T>(i.a);
  const uint32_t own = w.block->rank;
  each_lane(lanes, [&](uint32_t l) {
    const uint64_t tag = (static_cast<uint64_t>(a[l]) - static_cast<uint64_t>(i.imm)) >> kSharedRankShift;
    d[l] = tag == 0 ? own : static_cast<uint32_t>(tag - 1);
  });
  spread_poison<uint32_t>(w, i, lanes, i.a);
  return &i + 1;
}

void lower_mapa(Lowering& l) {
  const bool wide = ptx::bits_of(l.inst->type()) == 64;
  const bool generic = space_of(*l.inst).space == Space::Generic;
  if (generic && !wide) return l.unsupported("32-bit generic addresses");
  const PlaneOffset a = l.source(1), rank = l.source(2, Type::U32), d = l.dest(0);
  Inst& out = l.emit(wide ? mapa<uint64_t> : mapa<uint32_t>);
  out.dst = d;
  out.a = a;
  out.b = rank;
  out.imm = generic ? static_cast<int64_t>(kSharedWindow) : 0;
}

void lower_getctarank(Lowering& l) {
  const bool wide = ptx::bits_of(l.inst->type()) == 64;
  const bool generic = space_of(*l.inst).space == Space::Generic;
  const PlaneOffset a = l.source(1), d = l.dest(l.inst->operands.at(0), Type::U32);
  Inst& out = l.emit(wide ? block_rank<uint64_t> : block_rank<uint32_t>);
  out.dst = d;
  out.a = a;
  out.imm = generic ? static_cast<int64_t>(kSharedWindow) : 0;
}

bool lies_in(const Warp& w, Address a, Space space, bool cluster) {
  const bool shared = a >= kSharedWindow && a < kSharedWindowEnd;
  const bool local = a >= kLocalWindow && a < kLocalWindowEnd;
  const bool param = a >= kParamWindow && a < kParamWindowEnd;
  switch (space) {
    case Space::Shared: {
      const uint64_t tag = (a - kSharedWindow) >> kSharedRankShift;
      return shared && (cluster || tag == 0 || tag - 1 == w.block->rank);
    }
    case Space::Local:
      return local;
    case Space::Param:
      return param;
    case Space::Const:
      return in_constant_variable(*w.grid, a);
    default:  // kernel parameters can be read as global memory
      return !shared && !local;
  }
}

// imm: the space, + 256 for shared::cluster
const Inst* isspacep(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const uint64_t* a = w.plane<uint64_t>(i.a);
  uint32_t truth = 0;
  each_lane(lanes, [&](uint32_t l) {
    truth |= uint32_t{lies_in(w, a[l], static_cast<Space>(i.imm & 255), (i.imm & 256) != 0)} << l;
  });
  set_predicate(w, i.dst, lanes, truth);
  set_predicate_poison(w, i, i.dst, lanes, poison_of(w, i.a));
  return &i + 1;
}

void lower_isspacep(Lowering& l) {
  const SpaceOf space = space_of(*l.inst);
  const Operand& a = l.inst->operands.at(1);
  if (l.lane_bytes(a, Type::U64) != 8) return l.unsupported("32-bit generic addresses");
  const PlaneOffset from = l.source(a, Type::U64), d = l.dest(l.inst->operands.at(0), Type::Pred);
  Inst& out = l.emit(isspacep);
  out.dst = d;
  out.a = from;
  out.imm = static_cast<int64_t>(space.space) + (space.cluster ? 256 : 0);
}

// ---- Fences: memory is coherent here, so they only notify listeners ----

const Inst* fence(Warp& w, const Inst& i) {
  if constexpr (kWatched) {
    if (const uint32_t lanes = w.lanes_of(i))
      for (Listener* listener : listeners(w)) listener->on_fence(w, i, static_cast<Scope>(i.imm), lanes);
  }
  return pass_on(w, i);
}

void lower_fence(Lowering& l) {
  l.emit(fence).imm = static_cast<int64_t>(scope_of(*l.inst, Scope::System));
}

// ---- Hints ----

const Inst* proxy_fence(Warp& w, const Inst& i) {
  if constexpr (kWatched) {
    if (const uint32_t lanes = w.lanes_of(i))
      for (Listener* listener : listeners(w)) listener->on_proxy_fence(w, lanes);
  }
  return &i + 1;
}

void lower_proxy_fence(Lowering& l) {
  l.emit(l.inst->has(ptx::Mod::async) ? proxy_fence : nothing);
}

// Where the grid before still runs, the block stops until it has ended; listeners are notified afterwards.
const Inst* grid_wait(Warp& w, const Inst& i) {
  if (w.grid->prior_runs.load(std::memory_order_relaxed) && w.lanes_of(i) != 0) {
    w.block->awaits_prior = true;
    return yield(w, &i);
  }
  if constexpr (kWatched) {
    if (const uint32_t lanes = w.lanes_of(i))
      for (Listener* listener : listeners(w)) listener->on_grid_wait(w, lanes);
  }
  return &i + 1;
}

// Under a schedule that lets dependents start early, the block stops here until they have got as far as they get.
const Inst* launch_dependents(Warp& w, const Inst& i) {
  if (!w.grid->holds_at_trigger.load(std::memory_order_relaxed) || w.lanes_of(i) == 0) return &i + 1;
  w.block->triggered = true;
  return yield(w, &i + 1);
}

void lower_grid_dependency(Lowering& l) {
  l.emit(l.inst->has(ptx::Mod::wait) ? grid_wait : launch_dependents);
}

void lower_hint(Lowering& l) {
  l.emit(nothing);
}

// The policy is a value that only hints read.
const Inst* make_policy(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  uint64_t* d = w.plane<uint64_t>(i.dst);
  for (uint32_t l = 0; l < kWarpSize; ++l) d[l] = (lanes >> l & 1) != 0 ? 0 : d[l];
  spread_poison<uint64_t>(w, i, lanes);
  return &i + 1;
}

void lower_createpolicy(Lowering& l) {
  const PlaneOffset d = l.dest(l.inst->operands.at(0), Type::B64);
  l.emit(make_policy).dst = d;
}

// The bytes lose their value: reading them before they are written again is an error.
const Inst* discard(Warp& w, const Inst& i) {
  if constexpr (kWatched) {
    const MemoryForm& form = form_of(i);
    Address addresses[kWarpSize];
    lane_addresses(w, i, form, addresses);
    LaneAccess access;
    if (!resolve(w, i, form, w.lanes_of(i), addresses, access)) return nullptr;
    uint8_t undefined[128];
    std::memset(undefined, 0xff, sizeof undefined);
    each_lane(access.lanes, [&](uint32_t l) { write_undefined(access, l, 0, form.bytes, undefined); });
  }
  return &i + 1;
}

void lower_discard(Lowering& l) {
  MemoryForm& form = *l.extra<MemoryForm>();
  form.kind = AccessKind::Store;
  form.bytes = 128;
  const AddressPlane at = lower_address(l, l.inst->operands.at(0), space_of(*l.inst).space, form);
  Inst& out = l.emit(discard);
  out.a = at.base;
  out.imm = at.offset;
  out.extra = &form;
}

constexpr uint64_t kClocksOfANanosecond = 2;

const Inst* sleep(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  w.block->clock += w.plane<uint32_t>(i.a)[__builtin_ctz(lanes)] * kClocksOfANanosecond;
  ++w.polls;
  return yield(w, &i + 1);
}

void lower_nanosleep(Lowering& l) {
  const PlaneOffset duration = l.source(0, Type::U32);
  l.emit(sleep).a = duration;
}

// ---- alloca, stacksave, stackrestore: local memory after the function's own variables, lane by lane ----

constexpr uint32_t kStackAlign = 16;

uint32_t stack_top(const Warp& w, uint32_t lane) {
  return w.frame->local_base + w.frame->function->local_bytes + w.frame->dynamic[lane];
}

void set_address(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* value, bool wide) {
  each_lane(lanes, [&](uint32_t l) {
    if (wide)
      w.plane<uint64_t>(i.dst)[l] = value[l];
    else
      w.plane<uint32_t>(i.dst)[l] = static_cast<uint32_t>(value[l]);
  });
  if constexpr (kWatched) w.poisoned(i.dst) &= ~lanes;
}

struct StackForm {
  bool wide;       // addresses of 64 bits
  uint32_t align;  // alloca
};

const Inst* alloca_bytes(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const auto& form = *static_cast<const StackForm*>(i.extra);
  uint64_t place[kWarpSize] = {};
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint64_t bytes = form.wide ? w.plane<uint64_t>(i.a)[l] : w.plane<uint32_t>(i.a)[l];
    const uint64_t top = stack_top(w, l), at = (top + form.align - 1) / form.align * form.align;
    if (bytes > w.local_stride || at + bytes + kStackAlign > w.local_stride)
      return fault(w, i, FaultInfo::Kind::StackOverflow, l, "alloca exhausts the stack");
    const uint64_t end = (at + bytes + kStackAlign - 1) / kStackAlign * kStackAlign;
    place[l] = at;
    w.frame->dynamic[l] += static_cast<uint32_t>(end - top);
    w.frame->took_dynamic = true;
    if constexpr (kWatched) std::memset(w.local_initialised + uint64_t{l} * w.local_stride + at, 0, bytes);
  }
  set_address(w, i, lanes, place, form.wide);
  return &i + 1;
}

const Inst* save_stack(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  uint64_t top[kWarpSize] = {};
  for (uint32_t l = 0; l < kWarpSize; ++l) top[l] = stack_top(w, l);
  set_address(w, i, lanes, top, static_cast<const StackForm*>(i.extra)->wide);
  return &i + 1;
}

const Inst* restore_stack(Warp& w, const Inst& i) {
  const bool wide = static_cast<const StackForm*>(i.extra)->wide;
  for (uint32_t rest = w.lanes_of(i); rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint64_t top = wide ? w.plane<uint64_t>(i.a)[l] : w.plane<uint32_t>(i.a)[l];
    const uint64_t bottom = stack_top(w, l) - w.frame->dynamic[l];
    if (top < bottom || top > w.local_stride)
      return fault(w, i, FaultInfo::Kind::StackOverflow, l,
                   "stackrestore of a value that stacksave did not return");
    w.frame->dynamic[l] = static_cast<uint32_t>(top - bottom);
  }
  return &i + 1;
}

void lower_stack(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<StackForm>();
  form.wide = ptx::bits_of(inst.type()) == 64;
  form.align = kStackAlign;
  if (inst.opcode == Opcode::stackrestore) {
    const PlaneOffset a = l.source(0);
    Inst& out = l.emit(restore_stack);
    out.a = a;
    out.extra = &form;
    return;
  }
  const bool takes = inst.opcode == Opcode::alloca;
  const PlaneOffset a = takes ? l.source(1) : 0;
  if (takes && inst.operands.size() > 2) {
    const Operand& align = inst.operands[2];
    if (align.kind != Operand::Kind::Immediate) return l.unsupported("an alignment that is not a constant");
    form.align = std::max<uint32_t>(kStackAlign, static_cast<uint32_t>(align.bits));
  }
  const PlaneOffset d = l.dest();
  Inst& out = l.emit(takes ? alloca_bytes : save_stack);
  out.dst = d;
  out.a = a;
  out.extra = &form;
}

constexpr LowerRow kRows[] = {
    {Opcode::alloca, lower_stack},
    {Opcode::stacksave, lower_stack},
    {Opcode::stackrestore, lower_stack},
    {Opcode::cvta, lower_cvta},
    {Opcode::mapa, lower_mapa},
    {Opcode::getctarank, lower_getctarank},
    {Opcode::isspacep, lower_isspacep},
    {Opcode::fence, lower_fence},
    {Opcode::membar, lower_fence},
    {Opcode::fence_proxy, lower_proxy_fence},
    {Opcode::membar_proxy, lower_hint},
    {Opcode::prefetch, lower_hint},
    {Opcode::prefetchu, lower_hint},
    {Opcode::applypriority, lower_hint},
    {Opcode::cp_async_bulk_prefetch, lower_hint},
    {Opcode::griddepcontrol, lower_grid_dependency},
    {Opcode::createpolicy, lower_createpolicy},
    {Opcode::discard, lower_discard},
    {Opcode::nanosleep, lower_nanosleep},
};

}  // namespace

std::span<const LowerRow> space_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
