// cvt: vector loops for the common conversions, and numerics::convert for all others.
#include "numerics/convert.h"

#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using numerics::Conversion;
using numerics::Num;
using numerics::Rounding;

struct NumRow {
  Type type;
  Num num;
};
constexpr NumRow kNums[] = {
    {Type::U8, Num::U8},     {Type::S8, Num::S8},     {Type::U16, Num::U16}, {Type::S16, Num::S16},
    {Type::U32, Num::U32},   {Type::S32, Num::S32},   {Type::U64, Num::U64}, {Type::S64, Num::S64},
    {Type::F16, Num::F16},   {Type::BF16, Num::BF16}, {Type::F32, Num::F32}, {Type::F64, Num::F64},
    {Type::TF32, Num::TF32},
};
// A packed type, and what it is made of.
constexpr NumRow kPairs[] = {
    {Type::F16x2, Num::F16},
    {Type::BF16x2, Num::BF16},
    {Type::E4M3x2, Num::E4M3},
    {Type::E5M2x2, Num::E5M2},
};

const NumRow* find(std::span<const NumRow> rows, Type type) {
  for (const NumRow& row : rows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

struct RoundingRow {
  Mod mod;
  Rounding rounding;
  bool to_integral;
};
constexpr RoundingRow kRoundings[] = {
    {Mod::rn, Rounding::NearestEven, false},  {Mod::rz, Rounding::TowardZero, false},
    {Mod::rm, Rounding::Down, false},         {Mod::rp, Rounding::Up, false},
    {Mod::rna, Rounding::NearestAway, false}, {Mod::rni, Rounding::NearestEven, true},
    {Mod::rzi, Rounding::TowardZero, true},   {Mod::rmi, Rounding::Down, true},
    {Mod::rpi, Rounding::Up, true},
};

Conversion conversion_of(const ptx::Instruction& inst, Num to, Num from) {
  Conversion c;
  c.to = to;
  c.from = from;
  for (const RoundingRow& row : kRoundings) {
    if (!inst.has(row.mod)) continue;
    c.rounding = row.rounding;
    c.to_integral = row.to_integral;
  }
  c.ftz = inst.has(Mod::ftz);
  c.sat = inst.has(Mod::sat);
  c.relu = inst.has(Mod::relu);
  c.satfinite = inst.has(Mod::satfinite);
  return c;
}

// ---- The general way: any lane width on either side ----

struct GeneralForm {
  Conversion conversion;
  uint32_t to_bytes, from_bytes;  // of the lanes
};

uint64_t read_lane(const std::byte* plane, uint32_t lane, uint32_t bytes) {
  uint64_t code = 0;
  std::memcpy(&code, plane + lane * bytes, bytes < 8 ? bytes : 8);
  return code;
}

// A narrow integer fills its register with its sign or with zeros.
uint64_t widened(Num num, uint64_t code) {
  if (!numerics::is_signed_integer(num)) return code;
  const int unused = 64 - numerics::width_of_integer(num);
  return static_cast<uint64_t>(static_cast<int64_t>(code << unused) >> unused);
}

const Inst* convert_any(Warp& w, const Inst& i) {
  const auto& form = *static_cast<const GeneralForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    const uint64_t code = numerics::convert(form.conversion, read_lane(w.planes + i.a, l, form.from_bytes));
    const uint64_t wide = widened(form.conversion.to, code);
    std::memcpy(w.planes + i.dst + l * form.to_bytes, &wide, form.to_bytes);
  }
  if constexpr (kWatched) {
    const uint32_t guard = guard_poison(w, i);
    poison_whole(w, i.dst, form.to_bytes, lanes | guard, (w.poisoned(i.a) & lanes) | guard);
  }
  return &i + 1;
}

// ---- Integers: the narrower of both types decides what is kept and how it is extended ----

template <class Narrow, class D>
struct Integer {
  template <class A>
  static D apply(A a) {
    return static_cast<D>(static_cast<Narrow>(a));
  }
  template <class A>
  static D undefined(Bits<A> a) {
    return static_cast<D>(static_cast<Narrow>(a.undefined));
  }
};

template <class Narrow, class D>
Handler integer_from(uint32_t from_bytes) {
  switch (from_bytes) {
    case 2:
      if constexpr (sizeof(Narrow) <= 2) return map1<Integer<Narrow, D>, D, uint16_t>;
      return nullptr;
    case 4:
      if constexpr (sizeof(Narrow) <= 4) return map1<Integer<Narrow, D>, D, uint32_t>;
      return nullptr;
    case 8:
      return map1<Integer<Narrow, D>, D, uint64_t>;
    default:
      return nullptr;
  }
}
template <class Narrow>
Handler integer_to(uint32_t to_bytes, uint32_t from_bytes) {
  switch (to_bytes) {
    case 2:
      if constexpr (sizeof(Narrow) <= 2) return integer_from<Narrow, uint16_t>(from_bytes);
      return nullptr;
    case 4:
      if constexpr (sizeof(Narrow) <= 4) return integer_from<Narrow, uint32_t>(from_bytes);
      return nullptr;
    case 8:
      return integer_from<Narrow, uint64_t>(from_bytes);
    default:
      return nullptr;
  }
}

Handler integer_conversion(Num to, Num from, uint32_t to_bytes, uint32_t from_bytes) {
  const bool narrows = numerics::width_of_integer(to) <= numerics::width_of_integer(from);
  // A result that is wider than its source but narrower than its register is extended twice.
  if (!narrows && to_bytes * 8 > static_cast<uint32_t>(numerics::width_of_integer(to)) &&
      numerics::is_signed_integer(to) != numerics::is_signed_integer(from)) {
    return nullptr;
  }
  switch (narrows ? to : from) {
    case Num::U8:
      return integer_to<uint8_t>(to_bytes, from_bytes);
    case Num::S8:
      return integer_to<int8_t>(to_bytes, from_bytes);
    case Num::U16:
      return integer_to<uint16_t>(to_bytes, from_bytes);
    case Num::S16:
      return integer_to<int16_t>(to_bytes, from_bytes);
    case Num::U32:
      return integer_to<uint32_t>(to_bytes, from_bytes);
    case Num::S32:
      return integer_to<int32_t>(to_bytes, from_bytes);
    case Num::U64:
      return integer_to<uint64_t>(to_bytes, from_bytes);
    case Num::S64:
      return integer_to<int64_t>(to_bytes, from_bytes);
    default:
      return nullptr;
  }
}

// ---- Integers and floats ----

struct ToF32 {
  template <class Int>
  static float apply(Int x) {
    return numerics::integer_to_f32(x);
  }
};
struct ToF64 {
  template <class Int>
  static double apply(Int x) {
    return numerics::integer_to_f64(x);
  }
};
template <class Int, Rounding R, bool Ftz = false>
struct ToInteger {
  template <class Float>
  static Int apply(Float x) {
    if constexpr (Ftz) x = numerics::flush(x);
    return numerics::to_integer<Int, R>(x);
  }
};
template <Rounding R, bool Ftz>
struct RoundF32 {
  static float apply(float x) { return numerics::round_f32<R, Ftz>(x); }
};
template <bool Ftz>
struct SaturateF32 {
  static float apply(float x) { return numerics::result<true>(numerics::operand<Ftz>(x)); }
};
template <Rounding R>
struct RoundF64 {
  static double apply(double x) { return numerics::round_f64<R>(x); }
};
template <bool Ftz, bool Sat>
struct F64ToF32 {
  static float apply(double x) { return numerics::f64_to_f32<Rounding::NearestEven, Ftz, Sat>(x); }
};
template <bool Ftz>
struct F32ToF64 {
  static double apply(float x) { return numerics::f32_to_f64<Ftz>(x); }
};
struct FromF16 {
  static float apply(uint16_t x) { return numerics::f16_to_f32(x); }
};
struct FromBF16 {
  static float apply(uint16_t x) { return numerics::bf16_to_f32(x); }
};
struct ToF16 {
  static uint16_t apply(float x) { return numerics::f32_to_f16_rn(x); }
};
struct ToBF16 {
  static uint16_t apply(float x) { return numerics::f32_to_bf16_rn(x); }
};
struct ToF16z {
  static uint16_t apply(float x) { return numerics::f32_to_f16_rz(x); }
};
struct ToBF16z {
  static uint16_t apply(float x) { return numerics::f32_to_bf16_rz(x); }
};

// What must match for a fast handler: types, rounding (as one of cvt's modifiers), .ftz, .sat.
enum class Round : uint8_t { None, Rn, Rz, Rni, Rzi, Rmi, Rpi, Other };
struct FastRow {
  Num to, from;
  Round round;
  bool ftz, sat;
  Handler handler;
};

constexpr Handler kF32Floor = map1<ToInteger<int32_t, Rounding::Down>, int32_t, float>;
constexpr Handler kF32Ceil = map1<ToInteger<int32_t, Rounding::Up>, int32_t, float>;
template <class Int, Rounding R, class Float>
constexpr Handler kTo = map1<ToInteger<Int, R>, Int, Float>;

constexpr FastRow kFast[] = {
    {Num::F32, Num::S32, Round::Rn, false, false, map1<ToF32, float, int32_t>},
    {Num::F32, Num::U32, Round::Rn, false, false, map1<ToF32, float, uint32_t>},
    {Num::F32, Num::S64, Round::Rn, false, false, map1<ToF32, float, int64_t>},
    {Num::F32, Num::U64, Round::Rn, false, false, map1<ToF32, float, uint64_t>},
    {Num::F32, Num::S16, Round::Rn, false, false, map1<ToF32, float, int16_t>},
    {Num::F32, Num::U16, Round::Rn, false, false, map1<ToF32, float, uint16_t>},
    {Num::F64, Num::S32, Round::Rn, false, false, map1<ToF64, double, int32_t>},
    {Num::F64, Num::U32, Round::Rn, false, false, map1<ToF64, double, uint32_t>},
    {Num::F64, Num::S64, Round::Rn, false, false, map1<ToF64, double, int64_t>},
    {Num::F64, Num::U64, Round::Rn, false, false, map1<ToF64, double, uint64_t>},
    // Truncation and rounding to nearest take subnormals to zero anyway: .ftz changes nothing.
    {Num::S32, Num::F32, Round::Rzi, false, false, kTo<int32_t, Rounding::TowardZero, float>},
    {Num::S32, Num::F32, Round::Rzi, true, false, kTo<int32_t, Rounding::TowardZero, float>},
    {Num::U32, Num::F32, Round::Rzi, false, false, kTo<uint32_t, Rounding::TowardZero, float>},
    {Num::U32, Num::F32, Round::Rzi, true, false, kTo<uint32_t, Rounding::TowardZero, float>},
    {Num::S64, Num::F32, Round::Rzi, false, false, kTo<int64_t, Rounding::TowardZero, float>},
    {Num::S64, Num::F32, Round::Rzi, true, false, kTo<int64_t, Rounding::TowardZero, float>},
    {Num::U64, Num::F32, Round::Rzi, false, false, kTo<uint64_t, Rounding::TowardZero, float>},
    {Num::U64, Num::F32, Round::Rzi, true, false, kTo<uint64_t, Rounding::TowardZero, float>},
    {Num::S32, Num::F32, Round::Rni, false, false, kTo<int32_t, Rounding::NearestEven, float>},
    {Num::S32, Num::F32, Round::Rni, true, false, kTo<int32_t, Rounding::NearestEven, float>},
    {Num::S32, Num::F32, Round::Rmi, false, false, kF32Floor},
    {Num::S32, Num::F32, Round::Rpi, false, false, kF32Ceil},
    {Num::S32, Num::F32, Round::Rmi, true, false,
     map1<ToInteger<int32_t, Rounding::Down, true>, int32_t, float>},
    {Num::S32, Num::F32, Round::Rpi, true, false,
     map1<ToInteger<int32_t, Rounding::Up, true>, int32_t, float>},
    {Num::S32, Num::F64, Round::Rzi, false, false, kTo<int32_t, Rounding::TowardZero, double>},
    {Num::U32, Num::F64, Round::Rzi, false, false, kTo<uint32_t, Rounding::TowardZero, double>},
    {Num::S64, Num::F64, Round::Rzi, false, false, kTo<int64_t, Rounding::TowardZero, double>},
    {Num::U64, Num::F64, Round::Rzi, false, false, kTo<uint64_t, Rounding::TowardZero, double>},
    {Num::F32, Num::F32, Round::None, false, true, map1<SaturateF32<false>, float, float>},
    {Num::F32, Num::F32, Round::None, true, true, map1<SaturateF32<true>, float, float>},
    {Num::F32, Num::F32, Round::Rni, false, false,
     map1<RoundF32<Rounding::NearestEven, false>, float, float>},
    {Num::F32, Num::F32, Round::Rni, true, false, map1<RoundF32<Rounding::NearestEven, true>, float, float>},
    {Num::F32, Num::F32, Round::Rzi, false, false, map1<RoundF32<Rounding::TowardZero, false>, float, float>},
    {Num::F32, Num::F32, Round::Rzi, true, false, map1<RoundF32<Rounding::TowardZero, true>, float, float>},
    {Num::F32, Num::F32, Round::Rmi, false, false, map1<RoundF32<Rounding::Down, false>, float, float>},
    {Num::F32, Num::F32, Round::Rmi, true, false, map1<RoundF32<Rounding::Down, true>, float, float>},
    {Num::F32, Num::F32, Round::Rpi, false, false, map1<RoundF32<Rounding::Up, false>, float, float>},
    {Num::F32, Num::F32, Round::Rpi, true, false, map1<RoundF32<Rounding::Up, true>, float, float>},
    {Num::F64, Num::F64, Round::Rni, false, false, map1<RoundF64<Rounding::NearestEven>, double, double>},
    {Num::F64, Num::F64, Round::Rzi, false, false, map1<RoundF64<Rounding::TowardZero>, double, double>},
    {Num::F64, Num::F64, Round::Rmi, false, false, map1<RoundF64<Rounding::Down>, double, double>},
    {Num::F64, Num::F64, Round::Rpi, false, false, map1<RoundF64<Rounding::Up>, double, double>},
    {Num::F32, Num::F64, Round::Rn, false, false, map1<F64ToF32<false, false>, float, double>},
    {Num::F32, Num::F64, Round::Rn, true, false, map1<F64ToF32<true, false>, float, double>},
    {Num::F64, Num::F32, Round::None, false, false, map1<F32ToF64<false>, double, float>},
    {Num::F64, Num::F32, Round::None, true, false, map1<F32ToF64<true>, double, float>},
    {Num::F32, Num::F16, Round::None, false, false, map1<FromF16, float, uint16_t>},
    {Num::F32, Num::BF16, Round::None, false, false, map1<FromBF16, float, uint16_t>},
    {Num::F16, Num::F32, Round::Rn, false, false, map1<ToF16, uint16_t, float>},
    {Num::BF16, Num::F32, Round::Rn, false, false, map1<ToBF16, uint16_t, float>},
    {Num::F16, Num::F32, Round::Rz, false, false, map1<ToF16z, uint16_t, float>},
    {Num::BF16, Num::F32, Round::Rz, false, false, map1<ToBF16z, uint16_t, float>},
};

Round round_of(const ptx::Instruction& inst) {
  struct Row {
    Mod mod;
    Round round;
  };
  constexpr Row kRows[] = {{Mod::rn, Round::Rn},    {Mod::rz, Round::Rz},    {Mod::rni, Round::Rni},
                           {Mod::rzi, Round::Rzi},  {Mod::rmi, Round::Rmi},  {Mod::rpi, Round::Rpi},
                           {Mod::rm, Round::Other}, {Mod::rp, Round::Other}, {Mod::rna, Round::Other}};
  for (const Row& row : kRows) {
    if (inst.has(row.mod)) return row.round;
  }
  return Round::None;
}

Handler fast_handler(const ptx::Instruction& inst, Num to, Num from) {
  if (inst.has(Mod::relu) || inst.has(Mod::satfinite)) return nullptr;
  const Round round = round_of(inst);
  const bool ftz = inst.has(Mod::ftz), sat = inst.has(Mod::sat);
  for (const FastRow& row : kFast) {
    if (row.to == to && row.from == from && row.round == round && row.ftz == ftz && row.sat == sat)
      return row.handler;
  }
  return nullptr;
}

// ---- Pairs ----

struct PairForm {
  Conversion one;
};

// Each half of a packed result depends on one value: it is undefined where that has undefined bits. Code that
// needs one conversion often leaves the other half alone.
template <class D>
D undefined_halves(bool high, bool low) {
  constexpr int kHalf = sizeof(D) * 4;
  constexpr D kLow = static_cast<D>((uint64_t{1} << kHalf) - 1);
  return static_cast<D>((high ? static_cast<D>(kLow << kHalf) : 0) | (low ? kLow : 0));
}
template <class D, class HalvesOf, class... Sources>
void spread_halves(Warp& w, const Inst& i, uint32_t lanes, HalvesOf halves_of, Sources... sources) {
  if constexpr (kWatched) {
    if (!any_poison(w, i, lanes, sources...)) [[likely]]
      return;
    D undefined[kWarpSize];
    for (uint32_t l = 0; l < kWarpSize; ++l) undefined[l] = halves_of(l);
    set_undefined(w, i.dst, lanes, undefined);
    if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, i.dst, sizeof(D), guard, guard);
  } else {
    (void)w, (void)i, (void)lanes, (void)halves_of, ((void)sources, ...);
  }
}

// cvt.f16x2.f32 d, a, b and its kin: two floats into a packed pair, a above.
template <class D>
const Inst* pack_floats(Warp& w, const Inst& i) {
  const auto& one = static_cast<const PairForm*>(i.extra)->one;
  const uint32_t lanes = w.lanes_of(i);
  D* d = w.plane<D>(i.dst);
  const float *a = w.plane<float>(i.a), *b = w.plane<float>(i.b);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if (lanes >> l & 1) d[l] = static_cast<D>(numerics::pack_pair(one, a[l], b[l]));
  }
  spread_halves<D>(
      w, i, lanes,
      [&](uint32_t l) {
        return undefined_halves<D>(undefined_bits<uint32_t>(w, i.a, l), undefined_bits<uint32_t>(w, i.b, l));
      },
      i.a, i.b);
  return &i + 1;
}
template <class D, class A>
const Inst* convert_pairs(Warp& w, const Inst& i) {
  const auto& one = static_cast<const PairForm*>(i.extra)->one;
  const uint32_t lanes = w.lanes_of(i);
  D* d = w.plane<D>(i.dst);
  const A* a = w.plane<A>(i.a);
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if (lanes >> l & 1) d[l] = static_cast<D>(numerics::convert_pair(one, a[l]));
  }
  spread_halves<D>(
      w, i, lanes,
      [&](uint32_t l) {
        constexpr int kHalf = sizeof(A) * 4;
        const A bits = undefined_bits<A>(w, i.a, l);
        return undefined_halves<D>(bits >> kHalf, static_cast<A>(bits << kHalf));
      },
      i.a);
  return &i + 1;
}
struct PackHalves {
  static uint32_t undefined(Bits<uint32_t> a, Bits<uint32_t> b) {
    return undefined_halves<uint32_t>(a.undefined, b.undefined);
  }
};
struct PackF16 : PackHalves {
  static uint32_t apply(uint32_t a, uint32_t b) {
    return numerics::make_pair(numerics::f32_to_f16_rn(std::bit_cast<float>(b)),
                               numerics::f32_to_f16_rn(std::bit_cast<float>(a)));
  }
};
struct PackBF16 : PackHalves {
  static uint32_t apply(uint32_t a, uint32_t b) {
    return numerics::make_pair(numerics::f32_to_bf16_rn(std::bit_cast<float>(b)),
                               numerics::f32_to_bf16_rn(std::bit_cast<float>(a)));
  }
};

void lower_pair(Lowering& l, Type to, Num to_one, Type from) {
  const bool wide = ptx::bits_of(to) == 32;
  const bool plain = !l.inst->has(Mod::relu) && !l.inst->has(Mod::satfinite) && l.inst->has(Mod::rn);
  if (l.inst->has(Mod::rs)) return l.unsupported("stochastic rounding");
  if (from == Type::F32 && wide && plain) {
    emit_types(l,
               to == Type::F16x2 ? map2<PackF16, uint32_t, uint32_t, uint32_t>
                                 : map2<PackBF16, uint32_t, uint32_t, uint32_t>,
               to, Type::F32, Type::F32);
    return;
  }
  const NumRow* from_one = find(kPairs, from);
  if (from != Type::F32 && from_one == nullptr) return refuse(l);
  PairForm* form = l.extra<PairForm>();
  form->one = conversion_of(*l.inst, to_one, from == Type::F32 ? Num::F32 : from_one->num);
  Inst* inst;
  if (from == Type::F32) {
    inst = emit_types(l, wide ? pack_floats<uint32_t> : pack_floats<uint16_t>, to, Type::F32, Type::F32);
  } else {
    const bool from_wide = ptx::bits_of(from) == 32;
    const Handler handler =
        wide ? (from_wide ? convert_pairs<uint32_t, uint32_t> : convert_pairs<uint32_t, uint16_t>)
             : (from_wide ? convert_pairs<uint16_t, uint32_t> : convert_pairs<uint16_t, uint16_t>);
    inst = emit_types(l, handler, to, from);
  }
  if (inst != nullptr) inst->extra = form;
}

// ---- Lowering ----

void lower_cvt(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const Type to = inst.type(0), from = inst.type(1);
  if (const NumRow* pair = find(kPairs, to)) return lower_pair(l, to, pair->num, from);
  const NumRow *to_row = find(kNums, to), *from_row = find(kNums, from);
  if (to_row == nullptr || from_row == nullptr || inst.operands.size() != 2) return refuse(l);
  const Num to_num = to_row->num, from_num = from_row->num;
  const uint32_t to_bytes = l.lane_bytes(inst.operands[0], to),
                 from_bytes = l.lane_bytes(inst.operands[1], from);
  const auto natural = [](uint32_t bytes, Type type) { return bytes * 8 == ptx::bits_of(type); };
  Handler handler = nullptr;
  if (numerics::is_integer(to_num) && numerics::is_integer(from_num)) {
    if (!inst.has(Mod::sat)) handler = integer_conversion(to_num, from_num, to_bytes, from_bytes);
  } else if (natural(to_bytes, to) && natural(from_bytes, from)) {
    handler = fast_handler(inst, to_num, from_num);
  }
  if (handler != nullptr) {
    emit_types(l, handler, to, from);
    return;
  }
  GeneralForm* form = l.extra<GeneralForm>();
  *form = {conversion_of(inst, to_num, from_num), to_bytes, from_bytes};
  if (Inst* general = emit_types(l, convert_any, to, from)) general->extra = form;
}

template <int Bits, bool Signed>
struct PackSaturated {
  static uint32_t apply(int32_t a, int32_t b) { return numerics::pack_saturated<Bits, Signed>(a, b, 0); }
  static uint32_t apply(int32_t a, int32_t b, uint32_t c) {
    return numerics::pack_saturated<Bits, Signed>(a, b, c);
  }
};
template <int Bits, bool Signed>
constexpr Handler kPack3 = map3<PackSaturated<Bits, Signed>, uint32_t, int32_t, int32_t, uint32_t>;

void lower_cvt_pack(Lowering& l) {
  struct Row {
    Type type;
    Handler two, three;
  };
  constexpr Row kRows[] = {
      {Type::U16, map2<PackSaturated<16, false>, uint32_t, int32_t, int32_t>, nullptr},
      {Type::S16, map2<PackSaturated<16, true>, uint32_t, int32_t, int32_t>, nullptr},
      {Type::U8, nullptr, kPack3<8, false>},
      {Type::S8, nullptr, kPack3<8, true>},
      {Type::U4, nullptr, kPack3<4, false>},
      {Type::S4, nullptr, kPack3<4, true>},
      {Type::U2, nullptr, kPack3<2, false>},
      {Type::S2, nullptr, kPack3<2, true>},
  };
  const bool three = l.inst->operands.size() == 4;
  for (const Row& row : kRows) {
    if (row.type != l.inst->type()) continue;
    emit_types(l, three ? row.three : row.two, Type::B32, Type::S32, Type::S32,
               three ? Type::B32 : Type::None);
    return;
  }
  refuse(l);
}

constexpr LowerRow kRows[] = {
    {Opcode::cvt, lower_cvt},
    {Opcode::cvt_pack, lower_cvt_pack},
};

}  // namespace

std::span<const LowerRow> convert_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
