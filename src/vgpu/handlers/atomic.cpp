// atom and red. The lanes of a warp take effect one after the other, in lane order. Memory that blocks
// on other threads of the host may touch is changed with the host's atomics; shared memory is not.
#include "numerics/half.h"
#include "vgpu/handlers/access.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

__extension__ typedef unsigned __int128 Wide;

// ---- Operations: the new value from the old one and the operands ----

struct Add {
  template <class T>
  static T apply(T old, T b, T) {
    return static_cast<T>(old + b);
  }
};
struct Min {
  template <class T>
  static T apply(T old, T b, T) {
    return b < old ? b : old;
  }
};
struct Max {
  template <class T>
  static T apply(T old, T b, T) {
    return b > old ? b : old;
  }
};
struct And {
  template <class T>
  static T apply(T old, T b, T) {
    return old & b;
  }
};
struct Or {
  template <class T>
  static T apply(T old, T b, T) {
    return old | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T old, T b, T) {
    return old ^ b;
  }
};
struct Inc {
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t) { return old >= b ? 0 : old + 1; }
};
struct Dec {
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t) { return old == 0 || old > b ? b : old - 1; }
};
struct Exch {
  template <class T>
  static T apply(T, T b, T) {
    return b;
  }
};
struct Cas {
  template <class T>
  static T apply(T old, T b, T c) {
    return old == b ? c : old;
  }
};
template <bool Ftz>
struct AddF32 {
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t) {
    using namespace numerics;
    return bits_of(add_f32<Rounding::NearestEven, Ftz>(f32_of(old), f32_of(b)));
  }
};
// As an H200 treats NaNs: global memory hands one on untouched, the operand's first; shared memory makes it
// quiet, memory's first.
struct AddF64 {
  static uint64_t apply(uint64_t old, uint64_t b, uint64_t) {
    const double x = numerics::f64_of(old), y = numerics::f64_of(b);
    return y != y ? b : x != x ? old : numerics::bits_of(numerics::add_f64(x, y));
  }
};
struct AddF64Shared {
  static uint64_t apply(uint64_t old, uint64_t b, uint64_t) {
    return numerics::bits_of(numerics::add_f64(numerics::f64_of(b), numerics::f64_of(old)));
  }
};
template <class H>
struct AddHalf {
  static uint16_t apply(uint16_t old, uint16_t b, uint16_t) { return numerics::add_half<H>(old, b); }
};
template <class H, bool IsMax>
struct PickHalf {
  static uint16_t apply(uint16_t old, uint16_t b, uint16_t) {
    return numerics::minmax_half<H, IsMax>(old, b);
  }
};
// Both halves of a word; the word is changed as one, which is more than the manual promises.
template <class Op>
struct Pair {
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t) {
    const uint32_t low = Op::apply(static_cast<uint16_t>(old), static_cast<uint16_t>(b), 0);
    const uint32_t high = Op::apply(static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(b >> 16), 0);
    return low | high << 16;
  }
};

// ---- One element of one lane ----

template <class T>
inline bool replace(T* at, T& expected, T wanted) {
  if constexpr (sizeof(T) == 16) {
    const T seen = __sync_val_compare_and_swap(at, expected, wanted);
    const bool done = seen == expected;
    expected = seen;
    return done;
  } else {
    return __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
}

template <class Op, class T>
inline T exchange(T* at, T b, T c, bool exclusive) {
  T old;
  std::memcpy(&old, at, sizeof(T));
  if (exclusive) {
    const T made = Op::apply(old, b, c);
    std::memcpy(at, &made, sizeof(T));
    return old;
  }
  if constexpr (std::is_same_v<Op, Add>) {
    return __atomic_fetch_add(at, b, __ATOMIC_SEQ_CST);
  } else {
    while (!replace(at, old, Op::apply(old, b, c))) {
    }
    return old;
  }
}

// The element of every lane. `b`, `c`, `d` are planes (or copies) of T lanes.
using Kernel = void (*)(std::byte* const* host, uint32_t skip, uint32_t lanes, const void* b, const void* c,
                        void* d, bool exclusive);

// Shared is the operation where memory belongs to the block; it differs only for f32, which global memory
// flushes.
template <class T, class Op, class Shared = Op>
[[gnu::flatten]] void each(std::byte* const* host, uint32_t skip, uint32_t lanes, const void* b,
                           const void* c, void* d, bool exclusive) {
  const T* pb = static_cast<const T*>(b);
  const T* pc = static_cast<const T*>(c);
  T* pd = static_cast<T*>(d);
  if (exclusive)
    each_lane(lanes, [&](uint32_t l) {
      pd[l] = exchange<Shared>(reinterpret_cast<T*>(host[l] + skip), pb[l], pc[l], true);
    });
  else
    each_lane(lanes, [&](uint32_t l) {
      pd[l] = exchange<Op>(reinterpret_cast<T*>(host[l] + skip), pb[l], pc[l], false);
    });
}

// The same operation on a run of elements: bulk reductions.
template <class T, class Op, class Shared = Op>
[[gnu::flatten]] void run(std::byte* to, const std::byte* from, uint32_t bytes, bool exclusive) {
  for (uint32_t at = 0; at < bytes; at += sizeof(T)) {
    T b;
    std::memcpy(&b, from + at, sizeof(T));
    T* place = reinterpret_cast<T*>(to + at);
    if (exclusive)
      exchange<Shared>(place, b, b, true);
    else
      exchange<Op>(place, b, b, false);
  }
}

struct AtomicForm : MemoryForm {
  Kernel kernel = nullptr;
  PlaneOffset operands[kMaxVector] = {};  // `planes` are the destinations
  PlaneOffset swap = 0;                   // cas: the third operand
  bool returns = false;                   // the old value is used
  bool overwrites = false;                // exch: the old value does not matter
};

// ---- Where ----

struct Targets {
  std::byte* host[kWarpSize];
  uint32_t lanes = 0;      // that may go on
  uint32_t exclusive = 0;  // whose memory no other thread of the host touches
};

// Any undefined bit of memory or operand makes the element undefined.
void spread(Warp& w, const Inst& i, const AtomicForm& form, const LaneAccess& access) {
  const uint32_t size = form.element_bytes;
  uint8_t whole[16], mask[16];
  std::memset(whole, 0xff, sizeof whole);
  uint32_t undefined_stores = 0;
  each_lane(access.lanes, [&](uint32_t l) {
    for (uint32_t e = 0; e < form.count; ++e) {
      const bool before = read_undefined(access, l, e * size, size, mask);
      const uint32_t poison = w.poisoned(form.operands[e]) | w.poisoned(form.swap);
      const bool operand = (poison >> l & 1) != 0;
      // Reported here, so later reads of it are not reported again.
      const bool reported = operand && access.space[l] == Space::Global;
      if (reported) undefined_stores |= 1u << l;
      const bool remains = !reported && (operand || (before && !form.overwrites));
      write_undefined(access, l, e * size, size, remains ? whole : nullptr);
      std::memset(mask, 0, sizeof mask);
      if (form.returns) write_shadow(w, form.planes[e], size, l, before ? whole : mask);
    }
  });
  if (undefined_stores != 0)
    report(w, i, form, Violation::UndefinedStore, undefined_stores, access.address, "");
}

// Every byte and bit that it looks at is defined, so the result is.
bool all_defined(Warp& w, const Inst& i, const AtomicForm& form, const Reach& r, uint32_t lanes,
                 const Address* addresses) {
  uint32_t poison = (w.poisoned(i.a) | w.poisoned(i.guard)) & w.active;
  for (uint32_t e = 0; e < form.count; ++e)
    poison |= (w.poisoned(form.operands[e]) | w.poisoned(form.swap)) & lanes;
  if (poison != 0) return false;
  switch (form.bytes) {
    case 4:
      return lanes_initialised<4>(r, addresses, lanes);
    case 8:
      return lanes_initialised<8>(r, addresses, lanes);
    default:
      return false;  // the long way finds out
  }
}

bool find_targets(Warp& w, const Inst& i, const AtomicForm& form, uint32_t lanes, Targets& out) {
  alignas(64) Address addresses[kWarpSize];
  Reach r;
  bool reached = form.base_bytes == 4 ? reach_lanes<uint32_t>(w, i, form, lanes, addresses, r)
                                      : reach_lanes<uint64_t>(w, i, form, lanes, addresses, r);
  if constexpr (kWatched) {
    reached = reached && all_defined(w, i, form, r, lanes, addresses);
    if (reached) {
      announce_reached(w, i, form, r, shape_of(addresses, form.bytes, lanes), lanes, addresses, nullptr);
      for (uint32_t e = 0; e < form.count && form.returns; ++e) w.poisoned(form.planes[e]) &= ~lanes;
    }
  }
  if (reached) [[likely]] {
    for (uint32_t l = 0; l < kWarpSize; ++l) out.host[l] = r.start + addresses[l];
    out.lanes = lanes;
    out.exclusive = r.space == Space::Shared ? lanes : 0;
    return true;
  }
  lane_addresses(w, i, form, addresses);
  LaneAccess access;
  if (!resolve(w, i, form, lanes, addresses, access)) return false;
  announce(w, i, form, access, nullptr);
  if constexpr (kWatched) spread(w, i, form, access);
  out.lanes = access.lanes;
  each_lane(access.lanes, [&](uint32_t l) {
    out.host[l] = access.host[l];
    out.exclusive |= uint32_t{access.space[l] != Space::Global} << l;
  });
  return true;
}

const Inst* atomic(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  const auto& form = static_cast<const AtomicForm&>(form_of(i));
  Targets at;
  if (!find_targets(w, i, form, lanes, at)) return nullptr;
  alignas(64) std::byte old[kWarpSize * 32];  // by element, then by lane
  const void* swap = w.planes + form.swap;
  for (uint32_t e = 0; e < form.count; ++e) {
    const void* operand = w.planes + form.operands[e];
    std::byte* to = old + e * kWarpSize * form.element_bytes;
    const uint32_t skip = e * form.element_bytes;
    if (at.exclusive != 0) form.kernel(at.host, skip, at.exclusive, operand, swap, to, true);
    if ((at.lanes & ~at.exclusive) != 0)
      form.kernel(at.host, skip, at.lanes & ~at.exclusive, operand, swap, to, false);
  }
  if (!form.returns) return &i + 1;
  const uint32_t size = form.element_bytes;
  for (uint32_t e = 0; e < form.count; ++e)
    each_lane(at.lanes, [&](uint32_t l) {
      std::memcpy(w.planes + form.planes[e] + l * size, old + (e * kWarpSize + l) * size, size);
    });
  if (form.poll && ++w.polls > 32) return yield(w, &i + 1);
  return &i + 1;
}

// ---- Lowering ----

using numerics::BF16;
using numerics::F16;

struct KernelRow {
  Mod op;
  Type type;
  Kernel kernel;
  Reduction reduction;
};

template <class T, class... Ops>
constexpr KernelRow row(Mod op, Type type) {
  return {op, type, each<T, Ops...>, run<T, Ops...>};
}

constexpr KernelRow kKernels[] = {
    row<uint32_t, Add>(Mod::add, Type::U32),
    row<uint32_t, Add>(Mod::add, Type::S32),
    row<uint64_t, Add>(Mod::add, Type::U64),
    row<uint64_t, Add>(Mod::add, Type::S64),
    row<uint32_t, AddF32<true>, AddF32<false>>(Mod::add, Type::F32),
    row<uint64_t, AddF64, AddF64Shared>(Mod::add, Type::F64),
    row<uint16_t, AddHalf<F16>>(Mod::add, Type::F16),
    row<uint16_t, AddHalf<BF16>>(Mod::add, Type::BF16),
    row<uint32_t, Pair<AddHalf<F16>>>(Mod::add, Type::F16x2),
    row<uint32_t, Pair<AddHalf<BF16>>>(Mod::add, Type::BF16x2),
    row<uint32_t, Min>(Mod::min, Type::U32),
    row<int32_t, Min>(Mod::min, Type::S32),
    row<uint64_t, Min>(Mod::min, Type::U64),
    row<int64_t, Min>(Mod::min, Type::S64),
    row<uint16_t, PickHalf<F16, false>>(Mod::min, Type::F16),
    row<uint16_t, PickHalf<BF16, false>>(Mod::min, Type::BF16),
    row<uint32_t, Pair<PickHalf<F16, false>>>(Mod::min, Type::F16x2),
    row<uint32_t, Pair<PickHalf<BF16, false>>>(Mod::min, Type::BF16x2),
    row<uint32_t, Max>(Mod::max, Type::U32),
    row<int32_t, Max>(Mod::max, Type::S32),
    row<uint64_t, Max>(Mod::max, Type::U64),
    row<int64_t, Max>(Mod::max, Type::S64),
    row<uint16_t, PickHalf<F16, true>>(Mod::max, Type::F16),
    row<uint16_t, PickHalf<BF16, true>>(Mod::max, Type::BF16),
    row<uint32_t, Pair<PickHalf<F16, true>>>(Mod::max, Type::F16x2),
    row<uint32_t, Pair<PickHalf<BF16, true>>>(Mod::max, Type::BF16x2),
    row<uint32_t, And>(Mod::and_, Type::B32),
    row<uint64_t, And>(Mod::and_, Type::B64),
    row<uint32_t, Or>(Mod::or_, Type::B32),
    row<uint64_t, Or>(Mod::or_, Type::B64),
    row<uint32_t, Xor>(Mod::xor_, Type::B32),
    row<uint64_t, Xor>(Mod::xor_, Type::B64),
    row<uint32_t, Inc>(Mod::inc, Type::U32),
    row<uint32_t, Dec>(Mod::dec, Type::U32),
    row<uint32_t, Exch>(Mod::exch, Type::B32),
    row<uint64_t, Exch>(Mod::exch, Type::B64),
    row<Wide, Exch>(Mod::exch, Type::B128),
    row<uint16_t, Cas>(Mod::cas, Type::B16),
    row<uint32_t, Cas>(Mod::cas, Type::B32),
    row<uint64_t, Cas>(Mod::cas, Type::B64),
    row<Wide, Cas>(Mod::cas, Type::B128),
};

// Signs and floats of one width are the same bits to and, or, xor, exch and cas.
Type bits_like(Type type) {
  switch (ptx::bits_of(type)) {
    case 16:
      return Type::B16;
    case 32:
      return Type::B32;
    case 64:
      return Type::B64;
    default:
      return type;
  }
}

const KernelRow* find_kernel(const ptx::Instruction& inst) {
  for (const KernelRow& r : kKernels) {
    if (!inst.has(r.op)) continue;
    const bool plain_bits =
        r.op == Mod::and_ || r.op == Mod::or_ || r.op == Mod::xor_ || r.op == Mod::exch || r.op == Mod::cas;
    if (r.type == (plain_bits ? bits_like(inst.type()) : inst.type())) return &r;
  }
  return nullptr;
}

// Does anything but this instruction's destination name the register?
bool is_read(const Lowering& l, const Operand& dst) {
  if (dst.kind == Operand::Kind::Vector) {
    for (const Operand& element : dst.elements)
      if (is_read(l, element)) return true;
    return false;
  }
  if (dst.kind != Operand::Kind::Register) return false;
  for (const ptx::Instruction& inst : l.function.body)
    for (const Operand& operand : inst.operands)
      if (&operand != &l.inst->operands[0] && names(operand, dst.index)) return true;
  return false;
}

void lower_atomic(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const bool returns = inst.opcode == Opcode::atom;
  const size_t first = returns ? 1 : 0;
  const KernelRow* found = find_kernel(inst);
  if (found == nullptr) return l.unsupported("this operation on this type");
  const Operand& value = inst.operands.at(first + 1);
  const Type type = inst.type();
  auto& form = *l.extra<AtomicForm>();
  form.kind = returns ? AccessKind::Atomic : AccessKind::Reduction;
  form.order = order_of(inst, Order::Relaxed);
  form.scope = scope_of(inst, Scope::Device);
  form.kernel = found->kernel;
  form.overwrites = found->op == Mod::exch;
  form.returns = returns && is_read(l, inst.operands[0]);
  form.poll = form.returns;
  const bool vector = value.kind == Operand::Kind::Vector;
  form.count = static_cast<uint8_t>(vector ? value.elements.size() : 1);
  form.element_bytes = static_cast<uint8_t>(ptx::size_of(type));
  form.bytes = uint32_t{form.element_bytes} * form.count;
  if (form.count > kMaxVector || form.bytes > 32 || (vector && form.element_bytes > 4))
    return l.unsupported("this vector");
  const SpaceOf space = space_of(inst);
  const AddressPlane at = lower_address(l, inst.operands.at(first), space.space, form);
  for (uint32_t e = 0; e < form.count; ++e) {
    const Operand& from = vector ? value.elements[e] : value;
    form.operands[e] = l.source(from, type);
    bool fits = l.lane_bytes(from, type) == form.element_bytes;
    if (form.returns) {
      const Operand& to = vector ? inst.operands[0].elements.at(e) : inst.operands[0];
      form.planes[e] = l.dest(to, type);
      fits &= l.lane_bytes(to, type) == form.element_bytes;
    }
    if (!fits) return l.unsupported("registers of another width");
  }
  form.swap = found->op == Mod::cas ? l.source(first + 2, type) : form.operands[0];
  const bool is_float = ptx::kind_of(type) == TypeKind::Float && found->op == Mod::add;
  const bool last_wins = found->op == Mod::exch || found->op == Mod::cas;
  if (space.space != Space::Shared && (form.returns || is_float || last_wins)) l.order_dependent_atomics();
  Inst& out = l.emit(atomic);
  out.a = at.base;
  out.imm = at.offset;
  out.dst = form.planes[0];
  out.extra = static_cast<const MemoryForm*>(&form);
}

constexpr LowerRow kRows[] = {
    {Opcode::atom, lower_atomic},
    {Opcode::red, lower_atomic},
};

}  // namespace

Reduction reduction_of(const ptx::Instruction& inst) {
  const KernelRow* found = find_kernel(inst);
  return found != nullptr ? found->reduction : nullptr;
}

std::span<const LowerRow> atomic_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
