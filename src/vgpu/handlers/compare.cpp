// Comparison and selection: setp, set, selp, slct.
//
// A few comparisons are enough: the others are these with operands swapped or the result negated
// (a NaN makes every ordered one false, so `ltu` is the negation of `ge`).
#include "numerics/arith.h"
#include "numerics/half.h"
#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// ---- How a lane is read ----

struct AsIs {
  template <class T>
  static T of(T x) {
    return x;
  }
};
struct Flushed {
  static float of(float x) { return numerics::flush(x); }
};
template <class Format, bool Ftz, int Shift = 0>
struct HalfAt {  // the half at bit `Shift` of a lane
  template <class T>
  static float of(T x) {
    const auto code = static_cast<uint16_t>(x >> Shift);
    return Format::widen(Ftz ? numerics::flush_code<Format>(code) : code);
  }
};

// ---- Comparisons ----

struct Eq {
  template <class T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct Lt {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct NeOrdered {
  template <class T>
  static bool apply(T a, T b) {
    return (a < b) | (a > b);
  }
};
struct Ordered {
  template <class T>
  static bool apply(T a, T b) {
    return (a == a) & (b == b);
  }
};

enum class Combine : uint8_t { None, And, Or, Xor };

// imm: bit 0 negates, bits 1 and 2 say how to combine with predicate c, bits from 32 on name the
// plane of the second destination, if there is one.
inline int64_t describe(bool negate, Combine combine, PlaneOffset second) {
  return static_cast<int64_t>(negate) | static_cast<int64_t>(combine) << 1 |
         static_cast<int64_t>(second) << 32;
}

uint32_t combined(uint32_t truth, uint32_t c, Combine combine) {
  switch (combine) {
    case Combine::And:
      return truth & c;
    case Combine::Or:
      return truth | c;
    case Combine::Xor:
      return truth ^ c;
    case Combine::None:
      break;
  }
  return truth;
}

[[gnu::noinline]] void finish(Warp& w, const Inst& i, uint32_t lanes, uint32_t truth) {
  const auto combine = static_cast<Combine>(i.imm >> 1 & 3);
  const auto second = static_cast<PlaneOffset>(i.imm >> 32);
  const uint32_t c = combine == Combine::None ? 0 : w.mask(i.c);
  const uint32_t undefined = poison_of(w, i.a, i.b) | (combine == Combine::None ? 0 : poison_of(w, i.c));
  set_predicate(w, i.dst, lanes, combined(truth, c, combine));
  set_predicate_poison(w, i, i.dst, lanes, undefined);
  if (second == 0) return;
  set_predicate(w, second, lanes, combined(~truth, c, combine));
  set_predicate_poison(w, i, second, lanes, undefined);
}

template <class Op, class Read, class T>
[[gnu::flatten]] const Inst* test(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const T* a = w.plane<T>(i.a);
  const T* b = w.plane<T>(i.b);
  using Truth = Unsigned<T>;
  alignas(64) Truth truth[kWarpSize];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    truth[l] = Op::apply(Read::of(a[l]), Read::of(b[l])) ? static_cast<Truth>(~Truth{0}) : Truth{0};
  }
  const uint32_t mask = to_mask(truth) ^ (i.imm & 1 ? ~0u : 0u);
  if ((i.imm >> 1) == 0) [[likely]] {
    set_predicate(w, i.dst, lanes, mask);
    set_predicate_poison(w, i, i.dst, lanes, poison_of(w, i.a, i.b));
  } else {
    finish(w, i, lanes, mask);
  }
  return &i + 1;
}

// ---- Tables ----

enum Comparison : uint8_t { kEq, kLt, kLe, kNeOrdered, kOrdered, kComparisons };

struct ComparisonRow {
  Mod mod;
  Comparison comparison;
  bool swap, negate;
};
constexpr ComparisonRow kInteger[] = {
    {Mod::eq, kEq, false, false}, {Mod::ne, kEq, false, true},  {Mod::lt, kLt, false, false},
    {Mod::le, kLe, false, false}, {Mod::gt, kLe, false, true},  {Mod::ge, kLt, false, true},
    {Mod::lo, kLt, false, false}, {Mod::ls, kLe, false, false}, {Mod::hi, kLe, false, true},
    {Mod::hs, kLt, false, true},
};
constexpr ComparisonRow kFloat[] = {
    {Mod::eq, kEq, false, false},        {Mod::ne, kNeOrdered, false, false}, {Mod::lt, kLt, false, false},
    {Mod::le, kLe, false, false},        {Mod::gt, kLt, true, false},         {Mod::ge, kLe, true, false},
    {Mod::equ, kNeOrdered, false, true}, {Mod::neu, kEq, false, true},        {Mod::ltu, kLe, true, true},
    {Mod::leu, kLt, true, true},         {Mod::gtu, kLe, false, true},        {Mod::geu, kLt, false, true},
    {Mod::num, kOrdered, false, false},  {Mod::nan, kOrdered, false, true},
};

template <class Read, class T>
constexpr Handler kFloatTests[kComparisons] = {test<Eq, Read, T>, test<Lt, Read, T>, test<Le, Read, T>,
                                               test<NeOrdered, Read, T>, test<Ordered, Read, T>};
template <class T>
constexpr Handler kIntegerTests[3] = {test<Eq, AsIs, T>, test<Lt, AsIs, T>, test<Le, AsIs, T>};

struct Tests {
  const Handler* low = nullptr;   // by Comparison
  const Handler* high = nullptr;  // of the upper half of a packed type
  bool is_float = true;
};

template <class Format>
Tests half_tests(bool ftz, bool packed) {
  if (!packed)
    return {ftz ? kFloatTests<HalfAt<Format, true>, uint16_t> : kFloatTests<HalfAt<Format, false>, uint16_t>};
  if (ftz)
    return {kFloatTests<HalfAt<Format, true>, uint32_t>, kFloatTests<HalfAt<Format, true, 16>, uint32_t>};
  return {kFloatTests<HalfAt<Format, false>, uint32_t>, kFloatTests<HalfAt<Format, false, 16>, uint32_t>};
}

Tests tests_of(Type type, bool ftz) {
  switch (type) {
    case Type::B16:
    case Type::U16:
      return {kIntegerTests<uint16_t>, nullptr, false};
    case Type::S16:
      return {kIntegerTests<int16_t>, nullptr, false};
    case Type::B32:
    case Type::U32:
      return {kIntegerTests<uint32_t>, nullptr, false};
    case Type::S32:
      return {kIntegerTests<int32_t>, nullptr, false};
    case Type::B64:
    case Type::U64:
      return {kIntegerTests<uint64_t>, nullptr, false};
    case Type::S64:
      return {kIntegerTests<int64_t>, nullptr, false};
    case Type::F32:
      return {ftz ? kFloatTests<Flushed, float> : kFloatTests<AsIs, float>};
    case Type::F64:
      return {kFloatTests<AsIs, double>};
    case Type::F16:
      return half_tests<numerics::F16>(ftz, false);
    case Type::F16x2:
      return half_tests<numerics::F16>(ftz, true);
    case Type::BF16:
      return half_tests<numerics::BF16>(false, false);
    case Type::BF16x2:
      return half_tests<numerics::BF16>(false, true);
    default:
      return {};
  }
}

const ComparisonRow* row_of(const ptx::Instruction& inst, bool is_float) {
  const std::span<const ComparisonRow> rows = is_float ? std::span<const ComparisonRow>(kFloat) : kInteger;
  for (Mod mod : inst.mods) {
    for (const ComparisonRow& row : rows) {
      if (row.mod == mod) return &row;
    }
  }
  return nullptr;
}

Combine combine_of(const ptx::Instruction& inst) {
  return inst.has(Mod::and_)   ? Combine::And
         : inst.has(Mod::or_)  ? Combine::Or
         : inst.has(Mod::xor_) ? Combine::Xor
                               : Combine::None;
}

// Emits the comparison of operands 1 and 2 as `type`, into one predicate plane, or into two of a packed type.
struct Comparer {
  Lowering& l;
  Tests tests;
  const ComparisonRow* row = nullptr;
  Combine combine = Combine::None;
  PlaneOffset a = 0, b = 0, c = 0;

  Comparer(Lowering& lowering, Type type)
      : l(lowering),
        tests(tests_of(type, lowering.inst->has(Mod::ftz))),
        combine(combine_of(*lowering.inst)) {
    row = tests.low ? row_of(*l.inst, tests.is_float) : nullptr;
    if (row == nullptr) {
      refuse(l);
      return;
    }
    a = l.source(1, type);
    b = l.source(2, type);
    if (combine != Combine::None) c = l.source(3, Type::Pred);
    if (row->swap) std::swap(a, b);
  }

  void emit(const Handler* table, PlaneOffset dst, PlaneOffset second = 0) const {
    Inst& inst = l.emit(table[row->comparison]);
    inst.dst = dst, inst.a = a, inst.b = b, inst.c = c;
    inst.imm = describe(row->negate, combine, second);
  }
};

const Inst* move_predicate(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  set_predicate(w, i.dst, lanes, w.mask(i.a));
  set_predicate_poison(w, i, i.dst, lanes, poison_of(w, i.a));
  return &i + 1;
}

// set: the predicate as a number. imm: what true is.
template <class T>
const Inst* spell(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i), truth = w.mask(i.a);
  T* d = w.plane<T>(i.dst);
  const T yes = static_cast<T>(i.imm);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if (lanes >> l & 1) d[l] = truth >> l & 1 ? yes : T{0};
  }
  spread_poison<T>(w, i, lanes, i.a);
  return &i + 1;
}
// Of both halves: a is the lower one's predicate.
const Inst* spell_pair(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i), low = w.mask(i.a), high = w.mask(i.b);
  uint32_t* d = w.plane<uint32_t>(i.dst);
  const auto yes = static_cast<uint32_t>(i.imm);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if (lanes >> l & 1) d[l] = (low >> l & 1 ? yes : 0) | (high >> l & 1 ? yes << 16 : 0);
  }
  spread_poison<uint32_t>(w, i, lanes, i.a, i.b);
  return &i + 1;
}

// ---- Selection ----

template <class T>
[[gnu::noinline, gnu::cold]] void select_poison(Warp& w, const Inst& i, uint32_t lanes) {
  alignas(64) T undefined[kWarpSize];
  const uint32_t mask = w.mask(i.c), open = w.poisoned(i.c);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const Bits<T> a = bits_at<T>(w, i.a, l), b = bits_at<T>(w, i.b, l);
    undefined[l] = open >> l & 1   ? static_cast<T>((a.value ^ b.value) | a.undefined | b.undefined)
                   : mask >> l & 1 ? a.undefined
                                   : b.undefined;
  }
  set_undefined(w, i.dst, lanes, undefined);
  if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, i.dst, sizeof(T), guard, guard);
}

template <class T>
const Inst* select(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  if constexpr (kWatched) {
    if (any_poison(w, i, lanes, i.a, i.b, i.c)) [[unlikely]]
      select_poison<T>(w, i, lanes);
  }
  T* d = w.plane<T>(i.dst);
  const T *a = w.plane<T>(i.a), *b = w.plane<T>(i.b);
  if (lanes == kAllLanes) [[likely]] {
    choose(d, a, b, w.mask(i.c));
  } else {
    alignas(64) T value[kWarpSize];
    choose(value, a, b, w.mask(i.c));
    blend(d, value, lanes);
  }
  return &i + 1;
}

template <class C, bool Ftz = false>
struct Slct {
  template <class T>
  static T apply(T a, T b, C c) {
    if constexpr (Ftz) c = numerics::flush(c);
    return c >= C{0} ? a : b;
  }
};
template <class C, bool Ftz = false>
Handler slct_by_width(Type type) {
  switch (ptx::bits_of(type)) {
    case 16:
      return map3<Slct<C, Ftz>, uint16_t, uint16_t, uint16_t, C>;
    case 32:
      return map3<Slct<C, Ftz>, uint32_t, uint32_t, uint32_t, C>;
    case 64:
      return map3<Slct<C, Ftz>, uint64_t, uint64_t, uint64_t, C>;
    default:
      return nullptr;
  }
}

struct TrueRow {
  Type type;
  int64_t yes;
};
constexpr TrueRow kTrue[] = {
    {Type::U16, 0xffff},     {Type::S16, 0xffff}, {Type::U32, 0xffffffff}, {Type::S32, 0xffffffff},
    {Type::F32, 0x3f800000}, {Type::F16, 0x3c00}, {Type::BF16, 0x3f80},
};
constexpr TrueRow kTruePair[] = {
    {Type::U32, 0xffff},
    {Type::S32, 0xffff},
    {Type::F16x2, 0x3c00},
    {Type::BF16x2, 0x3f80},
};

const TrueRow* true_of(Type type, bool packed) {
  const std::span<const TrueRow> rows = packed ? std::span<const TrueRow>(kTruePair) : kTrue;
  for (const TrueRow& row : rows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

void lower_setp(Lowering& l) {
  const Operand& d = l.inst->operands.at(0);
  const Comparer comparer(l, l.inst->type());
  if (comparer.row == nullptr) return;
  const PlaneOffset p = l.dest(d, Type::Pred);
  const PlaneOffset q = d.pair != ptx::kNone ? l.reg(d.pair) : 0;
  if (comparer.tests.high == nullptr) return comparer.emit(comparer.tests.low, p, q);
  // Packed: p is the lower half's, q the upper one's. p may be c, which the second comparison still reads.
  const PlaneOffset held = l.scratch(0);
  comparer.emit(comparer.tests.low, held);
  if (q != 0) comparer.emit(comparer.tests.high, q);
  Inst& move = l.emit(move_predicate);
  move.dst = p, move.a = held;
}

void lower_set(Lowering& l) {
  const Type to = l.inst->type(0), from = l.inst->type(1);
  const Comparer comparer(l, from);
  if (comparer.row == nullptr) return;
  const bool packed = comparer.tests.high != nullptr;
  const TrueRow* yes = true_of(to, packed);
  if (yes == nullptr) return refuse(l);
  const PlaneOffset low = l.scratch(0), high = packed ? l.scratch(0) : 0;
  const PlaneOffset dst = l.dest(l.inst->operands.at(0), to);
  comparer.emit(comparer.tests.low, low);
  if (packed) comparer.emit(comparer.tests.high, high);
  Inst& inst = l.emit(packed ? spell_pair : ptx::bits_of(to) == 16 ? spell<uint16_t> : spell<uint32_t>);
  inst.dst = dst, inst.a = low, inst.b = high;
  inst.imm = yes->yes;
}

void lower_selp(Lowering& l) {
  const Type type = l.inst->type();
  const uint32_t bits = ptx::bits_of(type);
  const Handler handler = bits == 16   ? select<uint16_t>
                          : bits == 32 ? select<uint32_t>
                          : bits == 64 ? select<uint64_t>
                                       : nullptr;
  emit_types(l, handler, type, type, type, Type::Pred);
}

void lower_slct(Lowering& l) {
  const Type type = l.inst->type(0), by = l.inst->type(1);
  const Handler handler = by == Type::S32         ? slct_by_width<int32_t>(type)
                          : by != Type::F32       ? nullptr
                          : l.inst->has(Mod::ftz) ? slct_by_width<float, true>(type)
                                                  : slct_by_width<float>(type);
  emit_types(l, handler, type, type, type, by);
}

}  // namespace assay::vgpu::ASSAY_BUILD
