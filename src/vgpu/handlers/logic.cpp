// Bits: logic, shifts, fields, permutes, counts; and the table of comparison, selection and moves.
//
// Undefined bits are followed one by one here: an `and` with a defined 0 is defined, a shift moves
// them, a byte permute picks them.
#include "numerics/integer.h"
#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

template <class T>
constexpr T kAllBits = static_cast<T>(~T{0});
template <class T>
T whole(bool undefined) {
  return undefined ? kAllBits<T> : T{0};
}

struct And {
  template <class T>
  static T apply(T a, T b) {
    return a & b;
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<T> b) {
    return (a.undefined | b.undefined) & (a.undefined | a.value) & (b.undefined | b.value);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return a | b;
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<T> b) {
    return (a.undefined | b.undefined) & (a.undefined | ~a.value) & (b.undefined | ~b.value);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return a ^ b;
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<T> b) {
    return a.undefined | b.undefined;
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
  template <class T>
  static T undefined(Bits<T> a) {
    return a.undefined;
  }
};
struct Cnot {
  template <class T>
  static T apply(T a) {
    return a == 0 ? T{1} : T{0};
  }
};
struct Shl {
  template <class T>
  static T apply(T a, uint32_t n) {
    return numerics::shl(a, n);
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<uint32_t> n) {
    return n.undefined ? kAllBits<T> : numerics::shl(a.undefined, n.value);
  }
};
struct Shr {
  template <class T>
  static T apply(T a, uint32_t n) {
    return numerics::shr(a, n);
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<uint32_t> n) {
    return n.undefined ? kAllBits<T> : numerics::shr(a.undefined, n.value);
  }
};
template <bool Left, bool Clamp>
struct Funnel {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t n) {
    return Left ? numerics::shf_l(a, b, n, Clamp) : numerics::shf_r(a, b, n, Clamp);
  }
  static uint32_t undefined(Bits<uint32_t> a, Bits<uint32_t> b, Bits<uint32_t> n) {
    return n.undefined ? ~0u : apply(a.undefined, b.undefined, n.value);
  }
};
struct Bfe {
  template <class T>
  static T apply(T a, uint32_t position, uint32_t length) {
    return numerics::bit_field_extract(a, position, length);
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<uint32_t> position, Bits<uint32_t> length) {
    if ((position.undefined | length.undefined) & 0xff) return kAllBits<T>;
    return numerics::bit_field_extract(a.undefined, position.value, length.value);
  }
};
struct Bfi {
  template <class T>
  static T apply(T a, T b, uint32_t position, uint32_t length) {
    return numerics::bit_field_insert(a, b, position, length);
  }
  template <class T>
  static T undefined(Bits<T> a, Bits<T> b, Bits<uint32_t> position, Bits<uint32_t> length) {
    if ((position.undefined | length.undefined) & 0xff) return kAllBits<T>;
    return numerics::bit_field_insert(a.undefined, b.undefined, position.value, length.value);
  }
};
// One byte of the eight in {b, a}, or its sign. (numerics::prmt says the same, but does not become SIMD.)
inline uint32_t permuted_byte(uint32_t a, uint32_t b, uint32_t nibble) {
  const uint32_t word = nibble & 4 ? b : a;
  const uint32_t byte = word >> (nibble & 3) * 8 & 0xff;
  const uint32_t sign = byte & 0x80 ? 0xffu : 0u;
  return nibble & 8 ? sign : byte;
}
struct Prmt {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t selector) {
    return permuted_byte(a, b, selector) | permuted_byte(a, b, selector >> 4) << 8 |
           permuted_byte(a, b, selector >> 8) << 16 | permuted_byte(a, b, selector >> 12) << 24;
  }
  static uint32_t undefined(Bits<uint32_t> a, Bits<uint32_t> b, Bits<uint32_t> selector) {
    return selector.undefined & 0xffff ? ~0u : apply(a.undefined, b.undefined, selector.value);
  }
};
template <numerics::Permute Mode>
struct PrmtMode {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t selector) {
    return numerics::prmt(Mode, a, b, selector);
  }
  static uint32_t undefined(Bits<uint32_t> a, Bits<uint32_t> b, Bits<uint32_t> selector) {
    return selector.undefined & 3 ? ~0u : apply(a.undefined, b.undefined, selector.value);
  }
};
struct Brev {
  template <class T>
  static T apply(T a) {
    return numerics::reverse_bits(a);
  }
  template <class T>
  static T undefined(Bits<T> a) {
    return numerics::reverse_bits(a.undefined);
  }
};
template <class T, uint8_t Byte>
constexpr T kEvery = static_cast<T>(~T{0}) / 0xff * Byte;
struct Popc {
  template <class T>
  static uint32_t apply(T a) {  // the count of each pair, nibble, byte; the product adds the bytes
    a = static_cast<T>(a - (a >> 1 & kEvery<T, 0x55>));
    a = static_cast<T>((a & kEvery<T, 0x33>)+(a >> 2 & kEvery<T, 0x33>));
    a = static_cast<T>((a + (a >> 4)) & kEvery<T, 0x0f>);
    return static_cast<uint32_t>(static_cast<T>(a * kEvery<T, 0x01>) >> (8 * sizeof(T) - 8));
  }
};
struct Clz {
  template <class T>
  static uint32_t apply(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
template <bool ShiftAmount>
struct Bfind {
  template <class T>
  static uint32_t apply(T a) {
    return numerics::bit_find(a, ShiftAmount);
  }
};
struct Fns {
  static uint32_t apply(uint32_t mask, uint32_t base, int32_t offset) {
    return numerics::find_nth_set(mask, base, offset);
  }
};
template <bool Clamp>
struct Bmsk {
  static uint32_t apply(uint32_t a, uint32_t b) { return numerics::bit_mask(a, b, Clamp); }
};
template <bool Clamp>
struct Szext {
  template <class T>
  static T apply(T a, uint32_t bits) {
    return numerics::extend(a, bits, Clamp);
  }
};

// ---- lop3: any function of three bits; imm is its truth table ----

inline uint32_t lop3_of(const uint32_t (&table)[8], uint32_t a, uint32_t b, uint32_t c) {
  const auto pick = [](uint32_t s, uint32_t yes, uint32_t no) { return (yes & s) | (no & ~s); };
  const uint32_t low = pick(b, pick(c, table[3], table[2]), pick(c, table[1], table[0]));
  const uint32_t high = pick(b, pick(c, table[7], table[6]), pick(c, table[5], table[4]));
  return pick(a, high, low);
}

[[gnu::cold, gnu::noinline]] void lop3_poison(Warp& w, const Inst& i, uint32_t lanes,
                                              const uint32_t (&table)[8]) {
  alignas(64) uint32_t undefined[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const auto a = bits_at<uint32_t>(w, i.a, l), b = bits_at<uint32_t>(w, i.b, l),
               c = bits_at<uint32_t>(w, i.c, l);
    const uint32_t value = lop3_of(table, a.value, b.value, c.value);
    undefined[l] = 0;  // where some choice of the undefined bits changes the result
    for (uint32_t flips = 1; flips < 8; ++flips) {
      undefined[l] |=
          value ^ lop3_of(table, a.value ^ (flips & 1 ? a.undefined : 0),
                          b.value ^ (flips & 2 ? b.undefined : 0), c.value ^ (flips & 4 ? c.undefined : 0));
    }
  }
  set_undefined(w, i.dst, lanes, undefined);
  if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, i.dst, 4, guard, guard);
}

const Inst* lop3(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  uint32_t table[8];
  for (uint32_t k = 0; k < 8; ++k) table[k] = i.imm >> k & 1 ? ~0u : 0u;
  if constexpr (kWatched) {
    if (any_poison(w, i, lanes, i.a, i.b, i.c)) [[unlikely]]
      lop3_poison(w, i, lanes, table);
  }
  const uint32_t *a = w.plane<uint32_t>(i.a), *b = w.plane<uint32_t>(i.b), *c = w.plane<uint32_t>(i.c);
  alignas(64) uint32_t value[kWarpSize];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) value[l] = lop3_of(table, a[l], b[l], c[l]);
  blend(w.plane<uint32_t>(i.dst), value, lanes);
  return &i + 1;
}

// The predicate of `lop3.and d|p, …, q`: p = (d != 0) and q. imm 1: or.
const Inst* lop3_predicate(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const uint32_t* a = w.plane<uint32_t>(i.a);
  alignas(64) uint32_t truth[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) truth[l] = a[l] != 0 ? ~0u : 0u;
  const uint32_t nonzero = to_mask(truth), q = w.mask(i.b);
  set_predicate(w, i.dst, lanes, i.imm ? nonzero | q : nonzero & q);
  set_predicate_poison(w, i, i.dst, lanes, poison_of(w, i.a, i.b));
  return &i + 1;
}

void lower_lop3(Lowering& l) {
  const auto& operands = l.inst->operands;
  const Operand& d = operands.at(0);
  const PlaneOffset a = l.source(1, Type::B32), b = l.source(2, Type::B32), c = l.source(3, Type::B32);
  const bool combines = d.pair != ptx::kNone;
  const PlaneOffset q = combines ? l.source(5, Type::Pred) : 0;
  const PlaneOffset dst = l.dest(d, Type::B32);
  if (operands.at(4).kind != Operand::Kind::Immediate)
    return l.unsupported("a truth table that is not constant");
  Inst& inst = l.emit(lop3);
  inst.dst = dst, inst.a = a, inst.b = b, inst.c = c;
  inst.imm = static_cast<int64_t>(operands.at(4).bits & 0xff);
  if (!combines) return;
  Inst& predicate = l.emit(lop3_predicate);
  predicate.dst = l.reg(d.pair), predicate.a = dst, predicate.b = q;
  predicate.imm = l.inst->has(Mod::or_);
}

// ---- Logic on predicates: whole masks ----

enum class PredicateOp : uint8_t { And, Or, Xor, Not };

template <PredicateOp Op>
const Inst* predicate(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const uint32_t a = w.mask(i.a), b = w.mask(i.b);
  if constexpr (kWatched) {
    const Bits<uint32_t> x{a, w.poisoned(i.a)}, y{b, w.poisoned(i.b)};
    const uint32_t undefined = Op == PredicateOp::And  ? And::undefined(x, y)
                               : Op == PredicateOp::Or ? Or::undefined(x, y)
                                                       : x.undefined | y.undefined;
    set_predicate_poison(w, i, i.dst, lanes, undefined);
  }
  const uint32_t value = Op == PredicateOp::And   ? a & b
                         : Op == PredicateOp::Or  ? a | b
                         : Op == PredicateOp::Xor ? a ^ b
                                                  : ~a;
  set_predicate(w, i.dst, lanes, value);
  return &i + 1;
}

template <class Op, PredicateOp P>
void lower_logic(Lowering& l) {
  if (l.inst->type() != Type::Pred) {
    emit_same(l, by_width < Op, P == PredicateOp::Not ? 1 : 2 > (l.inst->type()),
              P == PredicateOp::Not ? 1 : 2);
    return;
  }
  Inst* inst = emit_same(l, predicate<P>, P == PredicateOp::Not ? 1 : 2);
  if (inst != nullptr && P == PredicateOp::Not) inst->b = inst->a;
}

// ---- Lowering ----

void lower_cnot(Lowering& l) {
  emit_same(l, by_width<Cnot, 1>(l.inst->type()), 1);
}

void lower_shift(Lowering& l) {
  const Type type = l.inst->type();
  Handler handler = nullptr;
  if (l.inst->opcode == Opcode::shl) {
    switch (ptx::bits_of(type)) {
      case 16:
        handler = map2<Shl, uint16_t, uint16_t, uint32_t>;
        break;
      case 32:
        handler = map2<Shl, uint32_t, uint32_t, uint32_t>;
        break;
      case 64:
        handler = map2<Shl, uint64_t, uint64_t, uint32_t>;
        break;
      default:
        break;
    }
  } else {
    switch (ptx::bits_of(type)) {
      case 16:
        handler =
            is_signed(type) ? map2<Shr, int16_t, int16_t, uint32_t> : map2<Shr, uint16_t, uint16_t, uint32_t>;
        break;
      case 32:
        handler =
            is_signed(type) ? map2<Shr, int32_t, int32_t, uint32_t> : map2<Shr, uint32_t, uint32_t, uint32_t>;
        break;
      case 64:
        handler =
            is_signed(type) ? map2<Shr, int64_t, int64_t, uint32_t> : map2<Shr, uint64_t, uint64_t, uint32_t>;
        break;
      default:
        break;
    }
  }
  emit_types(l, handler, type, type, Type::U32);
}

void lower_shf(Lowering& l) {
  constexpr Handler kTable[2][2] = {
      {kMapOf<Funnel<false, false>, uint32_t, 3>, kMapOf<Funnel<false, true>, uint32_t, 3>},
      {kMapOf<Funnel<true, false>, uint32_t, 3>, kMapOf<Funnel<true, true>, uint32_t, 3>}};
  emit_same(l, kTable[l.inst->has(Mod::l)][l.inst->has(Mod::clamp)], 3);
}

void lower_bfe(Lowering& l) {
  const Type type = l.inst->type();
  const Handler handler = type == Type::U32   ? map3<Bfe, uint32_t, uint32_t, uint32_t, uint32_t>
                          : type == Type::S32 ? map3<Bfe, int32_t, int32_t, uint32_t, uint32_t>
                          : type == Type::U64 ? map3<Bfe, uint64_t, uint64_t, uint32_t, uint32_t>
                          : type == Type::S64 ? map3<Bfe, int64_t, int64_t, uint32_t, uint32_t>
                                              : nullptr;
  emit_types(l, handler, type, type, Type::U32, Type::U32);
}

void lower_bfi(Lowering& l) {
  const Type type = l.inst->type();
  const Handler handler = type == Type::B32   ? map4<Bfi, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>
                          : type == Type::B64 ? map4<Bfi, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>
                                              : nullptr;
  const PlaneOffset length = l.source(4, Type::U32);
  if (Inst* inst = emit_types(l, handler, type, type, type, Type::U32)) inst->imm = length;
}

void lower_prmt(Lowering& l) {
  using numerics::Permute;
  struct Row {
    Mod mod;
    Handler handler;
  };
  constexpr Row kModes[] = {
      {Mod::f4e, kMapOf<PrmtMode<Permute::F4e>, uint32_t, 3>},
      {Mod::b4e, kMapOf<PrmtMode<Permute::B4e>, uint32_t, 3>},
      {Mod::rc8, kMapOf<PrmtMode<Permute::Rc8>, uint32_t, 3>},
      {Mod::ecl, kMapOf<PrmtMode<Permute::Ecl>, uint32_t, 3>},
      {Mod::ecr, kMapOf<PrmtMode<Permute::Ecr>, uint32_t, 3>},
      {Mod::rc16, kMapOf<PrmtMode<Permute::Rc16>, uint32_t, 3>},
  };
  Handler handler = kMapOf<Prmt, uint32_t, 3>;
  for (const Row& row : kModes) {
    if (l.inst->has(row.mod)) handler = row.handler;
  }
  emit_same(l, handler, 3);
}

void lower_brev(Lowering& l) {
  emit_same(l, by_width<Brev, 1>(l.inst->type()), 1);
}

template <class Op>
Handler count_by_width(Type type) {
  return ptx::bits_of(type) == 32   ? map1<Op, uint32_t, uint32_t>
         : ptx::bits_of(type) == 64 ? map1<Op, uint32_t, uint64_t>
                                    : nullptr;
}
void lower_popc(Lowering& l) {
  emit_types(l, count_by_width<Popc>(l.inst->type()), Type::U32, l.inst->type());
}
void lower_clz(Lowering& l) {
  emit_types(l, count_by_width<Clz>(l.inst->type()), Type::U32, l.inst->type());
}

template <bool ShiftAmount>
Handler bfind_of(Type type) {
  switch (type) {
    case Type::U32:
      return map1<Bfind<ShiftAmount>, uint32_t, uint32_t>;
    case Type::S32:
      return map1<Bfind<ShiftAmount>, uint32_t, int32_t>;
    case Type::U64:
      return map1<Bfind<ShiftAmount>, uint32_t, uint64_t>;
    case Type::S64:
      return map1<Bfind<ShiftAmount>, uint32_t, int64_t>;
    default:
      return nullptr;
  }
}
void lower_bfind(Lowering& l) {
  const Type type = l.inst->type();
  emit_types(l, l.inst->has(Mod::shiftamt) ? bfind_of<true>(type) : bfind_of<false>(type), Type::U32, type);
}

void lower_fns(Lowering& l) {
  emit_types(l, map3<Fns, uint32_t, uint32_t, uint32_t, int32_t>, Type::B32, Type::B32, Type::B32, Type::S32);
}
void lower_bmsk(Lowering& l) {
  emit_same(l, l.inst->has(Mod::clamp) ? kMapOf<Bmsk<true>, uint32_t, 2> : kMapOf<Bmsk<false>, uint32_t, 2>,
            2);
}
void lower_szext(Lowering& l) {
  const bool clamp = l.inst->has(Mod::clamp);
  const Type type = l.inst->type();
  const Handler handler = type == Type::S32   ? (clamp ? map2<Szext<true>, int32_t, int32_t, uint32_t>
                                                       : map2<Szext<false>, int32_t, int32_t, uint32_t>)
                          : type == Type::U32 ? (clamp ? map2<Szext<true>, uint32_t, uint32_t, uint32_t>
                                                       : map2<Szext<false>, uint32_t, uint32_t, uint32_t>)
                                              : nullptr;
  emit_types(l, handler, type, type, Type::U32);
}

constexpr LowerRow kRows[] = {
    {Opcode::and_, lower_logic<And, PredicateOp::And>},
    {Opcode::or_, lower_logic<Or, PredicateOp::Or>},
    {Opcode::xor_, lower_logic<Xor, PredicateOp::Xor>},
    {Opcode::not_, lower_logic<Not, PredicateOp::Not>},
    {Opcode::cnot, lower_cnot},
    {Opcode::lop3, lower_lop3},
    {Opcode::shl, lower_shift},
    {Opcode::shr, lower_shift},
    {Opcode::shf, lower_shf},
    {Opcode::bfe, lower_bfe},
    {Opcode::bfi, lower_bfi},
    {Opcode::prmt, lower_prmt},
    {Opcode::brev, lower_brev},
    {Opcode::popc, lower_popc},
    {Opcode::clz, lower_clz},
    {Opcode::bfind, lower_bfind},
    {Opcode::fns, lower_fns},
    {Opcode::bmsk, lower_bmsk},
    {Opcode::szext, lower_szext},
    {Opcode::setp, lower_setp},
    {Opcode::set, lower_set},
    {Opcode::selp, lower_selp},
    {Opcode::slct, lower_slct},
    {Opcode::mov, lower_mov},
};

}  // namespace

std::span<const LowerRow> logic_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
