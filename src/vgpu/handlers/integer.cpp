// Integer arithmetic: sums, products, quotients, carries.
#include "numerics/integer.h"

#include <type_traits>

#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// Arithmetic modulo the width, without C++'s promotion to a signed int.
template <class T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
template <class T>
constexpr Wrap<T> wrap(T x) {
  return static_cast<Wrap<T>>(x);
}

template <class T>
struct DoubleWidth;
template <>
struct DoubleWidth<int16_t> {
  using type = int32_t;
};
template <>
struct DoubleWidth<uint16_t> {
  using type = uint32_t;
};
template <>
struct DoubleWidth<int32_t> {
  using type = int64_t;
};
template <>
struct DoubleWidth<uint32_t> {
  using type = uint64_t;
};
template <class T>
using Double = typename DoubleWidth<T>::type;

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrap(a) + wrap(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrap(a) - wrap(b));
  }
};
struct AddSat {
  static int32_t apply(int32_t a, int32_t b) { return numerics::add_sat(a, b); }
};
struct SubSat {
  static int32_t apply(int32_t a, int32_t b) { return numerics::sub_sat(a, b); }
};
struct MulLo {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrap(a) * wrap(b));
  }
};
struct MulHi {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (sizeof(T) == 2) {
      return static_cast<T>(static_cast<Double<T>>(static_cast<Double<T>>(a) * b) >> 16);
    } else {
      return numerics::mul_hi(a, b);
    }
  }
};
struct MulWide {
  template <class T>
  static Double<T> apply(T a, T b) {
    return static_cast<Double<T>>(static_cast<Double<T>>(a) * static_cast<Double<T>>(b));
  }
};
struct MadLo {
  template <class T>
  static T apply(T a, T b, T c) {
    return static_cast<T>(wrap(a) * wrap(b) + wrap(c));
  }
};
struct MadHi {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(MulHi::apply(a, b), c);
  }
};
struct MadHiSat {
  static int32_t apply(int32_t a, int32_t b, int32_t c) { return numerics::mad_hi_sat(a, b, c); }
};
struct MadWide {
  template <class T>
  static Double<T> apply(T a, T b, Double<T> c) {
    return Add::apply(MulWide::apply(a, b), c);
  }
};
struct Mul24Lo {
  template <class T>
  static T apply(T a, T b) {
    return numerics::mul24_lo(a, b);
  }
};
struct Mul24Hi {
  template <class T>
  static T apply(T a, T b) {
    return numerics::mul24_hi(a, b);
  }
};
struct Mad24Lo {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(numerics::mul24_lo(a, b), c);
  }
};
struct Mad24Hi {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(numerics::mul24_hi(a, b), c);
  }
};
struct Mad24HiSat {
  static int32_t apply(int32_t a, int32_t b, int32_t c) { return numerics::mad24_hi_sat(a, b, c); }
};
struct Sad {
  template <class T>
  static T apply(T a, T b, T c) {
    return numerics::sad(a, b, c);
  }
};

// Quotients of 32 bits are exact in double, which divides in vectors. By zero, both quotient and remainder
// are all ones.
struct Div {
  template <class T>
  static T apply(T a, T b) {
    const T safe = b == 0 ? T{1} : b;
    T q;
    if constexpr (sizeof(T) <= 4) {
      q = static_cast<T>(static_cast<int64_t>(static_cast<double>(a) / static_cast<double>(safe)));
    } else if constexpr (std::is_signed_v<T>) {
      q = safe == -1 ? static_cast<T>(-wrap(a)) : a / safe;
    } else {
      q = a / safe;
    }
    return b == 0 ? static_cast<T>(~T{0}) : q;
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    const T q = Div::apply(a, b);
    return b == 0 ? static_cast<T>(~T{0}) : static_cast<T>(wrap(a) - wrap(q) * wrap(b));
  }
};

struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(-wrap(a));
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return a < 0 ? static_cast<T>(-wrap(a)) : a;
  }
};
template <class Op>
struct Relu {
  template <class T>
  static T apply(T a, T b) {
    const T r = Op::apply(a, b);
    return r < 0 ? T{0} : r;
  }
};

// The same operation on both halves of a word.
template <class Op, class Half>
struct Halves {
  static uint32_t apply(uint32_t a, uint32_t b) {
    const auto half = [](uint32_t x, int at) { return static_cast<Half>(x >> at); };
    const auto low = static_cast<uint16_t>(Op::apply(half(a, 0), half(b, 0)));
    const auto high = static_cast<uint16_t>(Op::apply(half(a, 16), half(b, 16)));
    return low | uint32_t{high} << 16;
  }
};

// Element `at` of a word, `Bits` wide, extended. (numerics::dp4a says the same, but does not become SIMD.)
template <int Bits, bool Signed>
int32_t element(uint32_t word, int at) {
  const uint32_t top = word << (32 - Bits * (at + 1));
  return Signed ? static_cast<int32_t>(top) >> (32 - Bits) : static_cast<int32_t>(top >> (32 - Bits));
}
template <bool ASigned, bool BSigned>
struct Dp4a {
  static uint32_t product(uint32_t a, uint32_t b, int at) {
    return static_cast<uint32_t>(element<8, ASigned>(a, at) * element<8, BSigned>(b, at));
  }
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    return c + product(a, b, 0) + product(a, b, 1) + product(a, b, 2) + product(a, b, 3);
  }
};
template <bool ASigned, bool BSigned, bool High>
struct Dp2a {
  static uint32_t product(uint32_t a, uint32_t b, int at) {
    return static_cast<uint32_t>(element<16, ASigned>(a, at) * element<8, BSigned>(b, at + (High ? 2 : 0)));
  }
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    return c + product(a, b, 0) + product(a, b, 1);
  }
};

// ---- Carry chains ----

struct CarryAdd {
  template <class T>
  static T apply(T a, T b, T, bool in, bool& out) {
    return numerics::add_carry<T>(a, b, in, out);
  }
};
struct CarrySub {
  template <class T>
  static T apply(T a, T b, T, bool in, bool& out) {
    return numerics::sub_borrow<T>(a, b, in, out);
  }
};
struct CarryMadLo {
  template <class T>
  static T apply(T a, T b, T c, bool in, bool& out) {
    return numerics::add_carry<T>(MulLo::apply(a, b), c, in, out);
  }
};
template <bool Signed>
struct CarryMadHi {
  template <class T>
  static T apply(T a, T b, T c, bool in, bool& out) {
    using Factor = std::conditional_t<Signed, std::make_signed_t<T>, T>;
    const T high = static_cast<T>(MulHi::apply(static_cast<Factor>(a), static_cast<Factor>(b)));
    return numerics::add_carry<T>(high, c, in, out);
  }
};

constexpr int64_t kReadsCarry = 1, kWritesCarry = 2;

// imm: the carry plane and, above bit 32, its use.
template <class Op, class T>
[[gnu::flatten]] const Inst* carry(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const auto plane = static_cast<PlaneOffset>(i.imm);
  const int64_t use = i.imm >> 32;
  const uint32_t in = use & kReadsCarry ? w.mask(plane) : 0;
  const T *a = w.plane<T>(i.a), *b = w.plane<T>(i.b), *c = w.plane<T>(i.c);
  alignas(64) T value[kWarpSize];
  uint32_t out = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    bool carries;
    value[l] = Op::apply(a[l], b[l], c[l], (in >> l & 1) != 0, carries);
    out |= uint32_t{carries} << l;
  }
  blend(w.plane<T>(i.dst), value, lanes);
  const uint32_t undefined = poison_of(w, i.a, i.b, i.c) | (use & kReadsCarry ? poison_of(w, plane) : 0);
  if (use & kWritesCarry) {
    set_predicate(w, plane, lanes, out);
    set_predicate_poison(w, i, plane, lanes, undefined);
  }
  if constexpr (kWatched) {
    const uint32_t all = (undefined & lanes) | guard_poison(w, i);
    if (all | (w.poisoned(i.dst) & lanes)) poison_whole(w, i.dst, sizeof(T), lanes | guard_poison(w, i), all);
  }
  return &i + 1;
}

template <class Op>
Handler carry_by_width(Type type) {
  return ptx::bits_of(type) == 64   ? carry<Op, uint64_t>
         : ptx::bits_of(type) == 32 ? carry<Op, uint32_t>
                                    : nullptr;
}

void emit_carry(Lowering& l, Handler handler, size_t sources, int64_t use) {
  const PlaneOffset plane = l.carry_plane();
  Inst* inst = emit_same(l, handler, sources);
  if (inst == nullptr) return;
  if (sources == 2) inst->c = inst->b;
  inst->imm = static_cast<int64_t>(plane) | use << 32;
}

// ---- Lowering ----

void lower_sum(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const Type type = inst.type();
  const bool is_add = inst.opcode == Opcode::add || inst.opcode == Opcode::addc;
  const bool reads = inst.opcode == Opcode::addc || inst.opcode == Opcode::subc;
  if (reads || inst.has(Mod::cc)) {
    const int64_t use = (reads ? kReadsCarry : 0) | (inst.has(Mod::cc) ? kWritesCarry : 0);
    return emit_carry(l, is_add ? carry_by_width<CarryAdd>(type) : carry_by_width<CarrySub>(type), 2, use);
  }
  Handler handler;
  if (inst.has(Mod::sat)) {
    handler =
        type == Type::S32
            ? (is_add ? map2<AddSat, int32_t, int32_t, int32_t> : map2<SubSat, int32_t, int32_t, int32_t>)
            : nullptr;
  } else if (type == Type::U16x2 || type == Type::S16x2) {
    handler =
        is_add ? kMapOf<Halves<Add, uint16_t>, uint32_t, 2> : kMapOf<Halves<Sub, uint16_t>, uint32_t, 2>;
  } else {
    handler = is_add ? by_width<Add, 2>(type) : by_width<Sub, 2>(type);
  }
  emit_same(l, handler, 2);
}

Handler wide_product(Type type) {
  switch (type) {
    case Type::U16:
      return map2<MulWide, uint32_t, uint16_t, uint16_t>;
    case Type::S16:
      return map2<MulWide, int32_t, int16_t, int16_t>;
    case Type::U32:
      return map2<MulWide, uint64_t, uint32_t, uint32_t>;
    case Type::S32:
      return map2<MulWide, int64_t, int32_t, int32_t>;
    default:
      return nullptr;
  }
}
Handler wide_mad(Type type) {
  switch (type) {
    case Type::U16:
      return map3<MadWide, uint32_t, uint16_t, uint16_t, uint32_t>;
    case Type::S16:
      return map3<MadWide, int32_t, int16_t, int16_t, int32_t>;
    case Type::U32:
      return map3<MadWide, uint64_t, uint32_t, uint32_t, uint64_t>;
    case Type::S32:
      return map3<MadWide, int64_t, int32_t, int32_t, int64_t>;
    default:
      return nullptr;
  }
}
Type wide_of(Type type) {
  return ptx::bits_of(type) == 16 ? Type::B32 : Type::B64;
}

void lower_mul(Lowering& l) {
  const Type type = l.inst->type();
  if (l.inst->has(Mod::wide)) {
    emit_types(l, wide_product(type), wide_of(type), type, type);
  } else {
    emit_same(l, l.inst->has(Mod::hi) ? by_integer<MulHi, 2>(type) : by_width<MulLo, 2>(type), 2);
  }
}

void lower_mad(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const Type type = inst.type();
  const bool hi = inst.has(Mod::hi);
  if (inst.opcode == Opcode::madc || inst.has(Mod::cc)) {
    const int64_t use =
        (inst.opcode == Opcode::madc ? kReadsCarry : 0) | (inst.has(Mod::cc) ? kWritesCarry : 0);
    return emit_carry(l,
                      !hi               ? carry_by_width<CarryMadLo>(type)
                      : is_signed(type) ? carry_by_width<CarryMadHi<true>>(type)
                                        : carry_by_width<CarryMadHi<false>>(type),
                      3, use);
  }
  if (inst.has(Mod::wide)) {
    emit_types(l, wide_mad(type), wide_of(type), type, type, wide_of(type));
    return;
  }
  if (inst.has(Mod::sat)) {
    emit_same(l, hi && type == Type::S32 ? kMapOf<MadHiSat, int32_t, 3> : nullptr, 3);
    return;
  }
  emit_same(l, hi ? by_integer<MadHi, 3>(type) : by_width<MadLo, 3>(type), 3);
}

template <class Op, size_t Sources>
Handler of_32(Type type) {
  return type == Type::S32   ? kMapOf<Op, int32_t, Sources>
         : type == Type::U32 ? kMapOf<Op, uint32_t, Sources>
                             : nullptr;
}
void lower_mul24(Lowering& l) {
  const Type type = l.inst->type();
  emit_same(l, l.inst->has(Mod::hi) ? of_32<Mul24Hi, 2>(type) : of_32<Mul24Lo, 2>(type), 2);
}
void lower_mad24(Lowering& l) {
  const Type type = l.inst->type();
  if (l.inst->has(Mod::sat)) {
    emit_same(l, type == Type::S32 && l.inst->has(Mod::hi) ? kMapOf<Mad24HiSat, int32_t, 3> : nullptr, 3);
    return;
  }
  emit_same(l, l.inst->has(Mod::hi) ? of_32<Mad24Hi, 3>(type) : of_32<Mad24Lo, 3>(type), 3);
}
void lower_sad(Lowering& l) {
  emit_same(l, by_integer<Sad, 3>(l.inst->type()), 3);
}
void lower_div(Lowering& l) {
  emit_same(l, by_integer<Div, 2>(l.inst->type()), 2);
}
void lower_rem(Lowering& l) {
  emit_same(l, by_integer<Rem, 2>(l.inst->type()), 2);
}

template <class Op>
Handler minmax_of(Type type, bool relu) {
  if (relu) {
    if (type == Type::S32) return kMapOf<Relu<Op>, int32_t, 2>;
    if (type == Type::S16x2) return kMapOf<Halves<Relu<Op>, int16_t>, uint32_t, 2>;
    return nullptr;
  }
  if (type == Type::U16x2) return kMapOf<Halves<Op, uint16_t>, uint32_t, 2>;
  if (type == Type::S16x2) return kMapOf<Halves<Op, int16_t>, uint32_t, 2>;
  return by_integer<Op, 2>(type);
}
void lower_minmax(Lowering& l) {
  const bool relu = l.inst->has(Mod::relu);
  const Type type = l.inst->type();
  emit_same(l, l.inst->opcode == Opcode::min ? minmax_of<Min>(type, relu) : minmax_of<Max>(type, relu), 2);
}
void lower_neg(Lowering& l) {
  emit_same(l, by_width<Neg, 1>(l.inst->type()), 1);
}
void lower_abs(Lowering& l) {
  emit_same(l, is_signed(l.inst->type()) ? by_integer<Abs, 1>(l.inst->type()) : nullptr, 1);
}

void lower_dp4a(Lowering& l) {
  constexpr Handler kTable[2][2] = {
      {kMapOf<Dp4a<false, false>, uint32_t, 3>, kMapOf<Dp4a<false, true>, uint32_t, 3>},
      {kMapOf<Dp4a<true, false>, uint32_t, 3>, kMapOf<Dp4a<true, true>, uint32_t, 3>}};
  emit_types(l, kTable[is_signed(l.inst->type(0))][is_signed(l.inst->type(1))], Type::B32, Type::B32,
             Type::B32, Type::B32);
}
void lower_dp2a(Lowering& l) {
  constexpr Handler kTable[2][2][2] = {
      {{kMapOf<Dp2a<false, false, false>, uint32_t, 3>, kMapOf<Dp2a<false, false, true>, uint32_t, 3>},
       {kMapOf<Dp2a<false, true, false>, uint32_t, 3>, kMapOf<Dp2a<false, true, true>, uint32_t, 3>}},
      {{kMapOf<Dp2a<true, false, false>, uint32_t, 3>, kMapOf<Dp2a<true, false, true>, uint32_t, 3>},
       {kMapOf<Dp2a<true, true, false>, uint32_t, 3>, kMapOf<Dp2a<true, true, true>, uint32_t, 3>}}};
  emit_types(l, kTable[is_signed(l.inst->type(0))][is_signed(l.inst->type(1))][l.inst->has(Mod::hi)],
             Type::B32, Type::B32, Type::B32, Type::B32);
}

constexpr LowerRow kRows[] = {
    {Opcode::add, by_family<lower_sum, lower_float_binary, lower_half_binary>},
    {Opcode::addc, lower_sum},
    {Opcode::sub, by_family<lower_sum, lower_float_binary, lower_half_binary>},
    {Opcode::subc, lower_sum},
    {Opcode::mul, by_family<lower_mul, lower_float_binary, lower_half_binary>},
    {Opcode::mad, by_family<lower_mad, lower_float_ternary, lower_half_ternary>},
    {Opcode::madc, lower_mad},
    {Opcode::mul24, lower_mul24},
    {Opcode::mad24, lower_mad24},
    {Opcode::sad, lower_sad},
    {Opcode::div, by_family<lower_div, lower_float_binary, lower_nothing>},
    {Opcode::rem, lower_rem},
    {Opcode::min, by_family<lower_minmax, lower_float_binary, lower_half_binary>},
    {Opcode::max, by_family<lower_minmax, lower_float_binary, lower_half_binary>},
    {Opcode::neg, by_family<lower_neg, lower_float_unary, lower_half_unary>},
    {Opcode::abs, by_family<lower_abs, lower_float_unary, lower_half_unary>},
    {Opcode::dp4a, lower_dp4a},
    {Opcode::dp2a, lower_dp2a},
};

}  // namespace

std::span<const LowerRow> integer_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
