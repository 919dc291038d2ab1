// f32 and f64 arithmetic. The arithmetic is in numerics/arith.h and approx.h; here are the tables.
#include "numerics/approx.h"
#include "numerics/arith.h"
#include "vgpu/handlers/approx.h"
#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using numerics::Rounding;

// ---- f32: an operation for each rounding, .ftz and .sat ----

template <Rounding R, bool Ftz, bool Sat>
struct AddF32 {
  static float apply(float a, float b) { return numerics::add_f32<R, Ftz, Sat>(a, b); }
};
template <Rounding R, bool Ftz, bool Sat>
struct SubF32 {
  static float apply(float a, float b) { return numerics::sub_f32<R, Ftz, Sat>(a, b); }
};
template <Rounding R, bool Ftz, bool Sat>
struct MulF32 {
  static float apply(float a, float b) { return numerics::mul_f32<R, Ftz, Sat>(a, b); }
};
template <Rounding R, bool Ftz, bool Sat>
struct FmaF32 {
  static float apply(float a, float b, float c) { return numerics::fma_f32<R, Ftz, Sat>(a, b, c); }
};
template <Rounding R, bool Ftz, bool>
struct DivF32 {
  static float apply(float a, float b) { return numerics::div_f32<R, Ftz>(a, b); }
};
template <Rounding R, bool Ftz, bool>
struct RcpF32 {
  static float apply(float a) { return numerics::rcp_f32<R, Ftz>(a); }
};
template <Rounding R, bool Ftz, bool>
struct SqrtF32 {
  static float apply(float a) { return numerics::sqrt_f32<R, Ftz>(a); }
};

// ---- f64 ----

template <Rounding R>
struct AddF64 {
  static double apply(double a, double b) { return numerics::add_f64<R>(a, b); }
};
template <Rounding R>
struct SubF64 {
  static double apply(double a, double b) { return numerics::sub_f64<R>(a, b); }
};
template <Rounding R>
struct MulF64 {
  static double apply(double a, double b) { return numerics::mul_f64<R>(a, b); }
};
template <Rounding R>
struct FmaF64 {
  static double apply(double a, double b, double c) { return numerics::fma_f64<R>(a, b, c); }
};
template <Rounding R>
struct DivF64 {
  static double apply(double a, double b) { return numerics::div_f64<R>(a, b); }
};
template <Rounding R>
struct RcpF64 {
  static double apply(double a) { return numerics::rcp_f64<R>(a); }
};
template <Rounding R>
struct SqrtF64 {
  static double apply(double a) { return numerics::sqrt_f64<R>(a); }
};

// ---- f32x2: two floats in a word ----

template <class Op>
struct Pair {
  template <class... S>
  static uint64_t apply(S... s) {
    const auto low = Op::apply(numerics::f32_of(static_cast<uint32_t>(s))...);
    const auto high = Op::apply(numerics::f32_of(static_cast<uint32_t>(s >> 32))...);
    return numerics::bits_of(low) | static_cast<uint64_t>(numerics::bits_of(high)) << 32;
  }
};

// ---- Tables: [rounding][ftz][sat] ----

constexpr int kRoundings = 4;
struct RoundingRow {
  Mod mod;
  int at;
};
constexpr RoundingRow kRounding[] = {{Mod::rn, 0}, {Mod::rz, 1}, {Mod::rm, 2}, {Mod::rp, 3}};

bool is_rounded(const ptx::Instruction& inst) {
  for (const RoundingRow& row : kRounding) {
    if (inst.has(row.mod)) return true;
  }
  return false;
}

int rounding_of(const ptx::Instruction& inst) {
  for (const RoundingRow& row : kRounding) {
    if (inst.has(row.mod)) return row.at;
  }
  return 0;
}

template <template <Rounding, bool, bool> class Op, size_t Sources, bool HasSat, Rounding R>
struct F32Row {
  static constexpr Handler kPlain = kMapOf<Op<R, false, false>, float, Sources>;
  static constexpr Handler kFtz = kMapOf<Op<R, true, false>, float, Sources>;
  static constexpr Handler kSat = HasSat ? kMapOf<Op<R, false, HasSat>, float, Sources> : nullptr;
  static constexpr Handler kFtzSat = HasSat ? kMapOf<Op<R, true, HasSat>, float, Sources> : nullptr;
  static Handler of(bool ftz, bool sat) { return ftz ? (sat ? kFtzSat : kFtz) : (sat ? kSat : kPlain); }
};

template <template <Rounding, bool, bool> class Op, size_t Sources, bool HasSat>
Handler f32_of(const ptx::Instruction& inst) {
  const bool ftz = inst.has(Mod::ftz), sat = inst.has(Mod::sat);
  switch (rounding_of(inst)) {
    case 0:
      return F32Row<Op, Sources, HasSat, Rounding::NearestEven>::of(ftz, sat);
    case 1:
      return F32Row<Op, Sources, HasSat, Rounding::TowardZero>::of(ftz, sat);
    case 2:
      return F32Row<Op, Sources, HasSat, Rounding::Down>::of(ftz, sat);
    default:
      return F32Row<Op, Sources, HasSat, Rounding::Up>::of(ftz, sat);
  }
}

template <template <Rounding> class Op, size_t Sources>
Handler f64_of(const ptx::Instruction& inst) {
  constexpr Handler kTable[kRoundings] = {
      kMapOf<Op<Rounding::NearestEven>, double, Sources>, kMapOf<Op<Rounding::TowardZero>, double, Sources>,
      kMapOf<Op<Rounding::Down>, double, Sources>, kMapOf<Op<Rounding::Up>, double, Sources>};
  return kTable[rounding_of(inst)];
}

template <template <Rounding, bool, bool> class Op, size_t Sources>
Handler f32x2_of(const ptx::Instruction& inst) {
  constexpr Handler kTable[kRoundings][2] = {
      {kMapOf<Pair<Op<Rounding::NearestEven, false, false>>, uint64_t, Sources>,
       kMapOf<Pair<Op<Rounding::NearestEven, true, false>>, uint64_t, Sources>},
      {kMapOf<Pair<Op<Rounding::TowardZero, false, false>>, uint64_t, Sources>,
       kMapOf<Pair<Op<Rounding::TowardZero, true, false>>, uint64_t, Sources>},
      {kMapOf<Pair<Op<Rounding::Down, false, false>>, uint64_t, Sources>,
       kMapOf<Pair<Op<Rounding::Down, true, false>>, uint64_t, Sources>},
      {kMapOf<Pair<Op<Rounding::Up, false, false>>, uint64_t, Sources>,
       kMapOf<Pair<Op<Rounding::Up, true, false>>, uint64_t, Sources>}};
  return kTable[rounding_of(inst)][inst.has(Mod::ftz)];
}

// fma in one of the directed roundings (expf has one): AVX-512 rounds as the instruction says, AVX2 as the thread's
// control register does.
#ifdef __AVX512F__
template <int Mode>
const Inst* fma_directed(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  alignas(64) float d[kWarpSize];
#pragma GCC unroll 2
  for (uint32_t k = 0; k < kWarpSize; k += 16) {
    const auto at = [&](PlaneOffset plane) { return _mm512_load_ps(w.plane<float>(plane) + k); };
    const __m512 r = _mm512_fmadd_round_ps(at(i.a), at(i.b), at(i.c), Mode | _MM_FROUND_NO_EXC);
    const __mmask16 nan = _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q);
    _mm512_store_ps(d + k,
                    _mm512_mask_blend_ps(nan, r, _mm512_castsi512_ps(_mm512_set1_epi32(numerics::kNanF32))));
  }
  blend(w.plane<float>(i.dst), d, lanes);
  spread_poison<float>(w, i, lanes, i.a, i.b, i.c);
  return &i + 1;
}
Handler fma_directed_of(int rounding) {
  constexpr Handler kTable[kRoundings] = {nullptr, fma_directed<_MM_FROUND_TO_ZERO>,
                                          fma_directed<_MM_FROUND_TO_NEG_INF>,
                                          fma_directed<_MM_FROUND_TO_POS_INF>};
  return kTable[rounding];
}
#else
// `d` is named as read and written, so that no arithmetic on it moves across.
inline void set_control(uint32_t control, float (&d)[kWarpSize]) {
  asm volatile("ldmxcsr %1" : "+m"(d) : "m"(control) : "memory");
}
template <uint32_t Mode>
const Inst* fma_directed(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const __m256 canonical = _mm256_castsi256_ps(_mm256_set1_epi32(numerics::kNanF32));
  const uint32_t before = _mm_getcsr();
  alignas(64) float d[kWarpSize];
  set_control((before & ~uint32_t{_MM_ROUND_MASK}) | Mode, d);
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const auto at = [&](PlaneOffset plane) { return _mm256_load_ps(w.plane<float>(plane) + k); };
    const __m256 r = _mm256_fmadd_ps(at(i.a), at(i.b), at(i.c));
    _mm256_store_ps(d + k, _mm256_blendv_ps(r, canonical, _mm256_cmp_ps(r, r, _CMP_UNORD_Q)));
  }
  set_control(before, d);
  blend(w.plane<float>(i.dst), d, lanes);
  spread_poison<float>(w, i, lanes, i.a, i.b, i.c);
  return &i + 1;
}
Handler fma_directed_of(int rounding) {
  constexpr Handler kTable[kRoundings] = {nullptr, fma_directed<_MM_ROUND_TOWARD_ZERO>,
                                          fma_directed<_MM_ROUND_DOWN>, fma_directed<_MM_ROUND_UP>};
  return kTable[rounding];
}
#endif

template <template <Rounding, bool, bool> class F32, template <Rounding> class F64, size_t Sources>
Handler rounded(const ptx::Instruction& inst) {
  switch (inst.type()) {
    case Type::F32:
      return f32_of<F32, Sources, true>(inst);
    case Type::F64:
      return inst.has(Mod::ftz) || inst.has(Mod::sat) ? nullptr : f64_of<F64, Sources>(inst);
    case Type::F32x2:
      return inst.has(Mod::sat) ? nullptr : f32x2_of<F32, Sources>(inst);
    default:
      return nullptr;
  }
}

// ---- min, max, signs ----

template <bool Max, bool Ftz, bool Nan, bool XorSign>
struct MinMaxF32 {
  static float apply(float a, float b) { return numerics::minmax_f32<Max, Ftz, Nan, XorSign>(a, b); }
  static float apply(float a, float b, float c) { return apply(apply(a, b), c); }
};
template <bool Max>
struct MinMaxF64 {
  static double apply(double a, double b) { return numerics::minmax_f64<Max>(a, b); }
};

template <bool Max, size_t Sources>
Handler minmax_of(const ptx::Instruction& inst) {
  if (inst.type() == Type::F64) return Sources == 2 ? kMapOf<MinMaxF64<Max>, double, 2> : nullptr;
  if (inst.type() != Type::F32 || inst.has(Mod::abs) != inst.has(Mod::xorsign)) return nullptr;
  const int at =
      (inst.has(Mod::ftz) ? 1 : 0) | (inst.has(Mod::NaN) ? 2 : 0) | (inst.has(Mod::xorsign) ? 4 : 0);
  constexpr Handler kTable[8] = {kMapOf<MinMaxF32<Max, false, false, false>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, true, false, false>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, false, true, false>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, true, true, false>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, false, false, true>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, true, false, true>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, false, true, true>, float, Sources>,
                                 kMapOf<MinMaxF32<Max, true, true, true>, float, Sources>};
  return kTable[at];
}

template <bool Ftz>
struct NegF32 {
  static float apply(float a) { return numerics::neg_f32<Ftz>(a); }
};
template <bool Ftz>
struct AbsF32 {
  static float apply(float a) { return numerics::abs_f32<Ftz>(a); }
};
struct NegF64 {
  static double apply(double a) { return numerics::neg_f64(a); }
};
struct AbsF64 {
  static double apply(double a) { return numerics::abs_f64(a); }
};
struct Copysign {
  static float apply(float a, float b) { return numerics::copysign_f32(a, b); }
  static double apply(double a, double b) { return numerics::copysign_f64(a, b); }
};

// ---- The approximate functions ----

template <class Instruction>
Handler approx_of(const ptx::Instruction& inst) {
  return inst.has(Mod::ftz) ? approx1<Instruction, true> : approx1<Instruction, false>;
}
template <class Instruction>
Handler quotient_of(const ptx::Instruction& inst) {
  return inst.has(Mod::ftz) ? approx_quotient<Instruction, true> : approx_quotient<Instruction, false>;
}
struct RcpApproxF64 {
  static double apply(double a) { return numerics::rcp_approx_f64(a); }
};
struct RsqrtApproxF64 {
  static double apply(double a) { return numerics::rsqrt_approx_f64(a); }
};
struct RsqrtFullF64 {
  static double apply(double a) { return numerics::rsqrt_approx_f64_full(a); }
};

Handler rcp_of(const ptx::Instruction& inst) {
  const bool approx = inst.has(Mod::approx);
  if (inst.type() == Type::F64) return approx ? kMapOf<RcpApproxF64, double, 1> : f64_of<RcpF64, 1>(inst);
  return approx ? approx_of<numerics::RcpApprox>(inst) : f32_of<RcpF32, 1, false>(inst);
}
Handler sqrt_of(const ptx::Instruction& inst) {
  if (inst.type() == Type::F64) return f64_of<SqrtF64, 1>(inst);
  return inst.has(Mod::approx) ? approx_of<numerics::SqrtApprox>(inst) : f32_of<SqrtF32, 1, false>(inst);
}
Handler rsqrt_of(const ptx::Instruction& inst) {
  if (inst.type() == Type::F64)
    return inst.has(Mod::ftz) ? kMapOf<RsqrtApproxF64, double, 1> : kMapOf<RsqrtFullF64, double, 1>;
  return approx_of<numerics::RsqrtApprox>(inst);
}
Handler div_of(const ptx::Instruction& inst) {
  if (inst.type() == Type::F64) return f64_of<DivF64, 2>(inst);
  if (inst.has(Mod::approx)) return quotient_of<numerics::DivApprox>(inst);
  if (inst.has(Mod::full)) return quotient_of<numerics::DivFull>(inst);
  if (!is_rounded(inst)) return nullptr;  // the default of PTX before 1.4
  return f32_of<DivF32, 2, false>(inst);
}

// ---- testp ----

template <numerics::Property P>
struct Has {
  template <class Float>
  static bool apply(Float a, Float) {
    return numerics::has_property(P, a);
  }
};
struct PropertyRow {
  Mod mod;
  Handler f32, f64;
};
using numerics::Property;
template <Property P>
constexpr PropertyRow property_row(Mod mod) {
  return {mod, compare<Has<P>, float, float>, compare<Has<P>, double, double>};
}
constexpr PropertyRow kProperties[] = {
    property_row<Property::Finite>(Mod::finite), property_row<Property::Infinite>(Mod::infinite),
    property_row<Property::Number>(Mod::number), property_row<Property::NotANumber>(Mod::notanumber),
    property_row<Property::Normal>(Mod::normal), property_row<Property::Subnormal>(Mod::subnormal),
};

void lower_testp(Lowering& l) {
  const Type type = l.inst->type();
  for (const PropertyRow& row : kProperties) {
    if (!l.inst->has(row.mod)) continue;
    Inst* inst = emit_types(l, type == Type::F64 ? row.f64 : row.f32, Type::Pred, type);
    if (inst != nullptr) inst->b = inst->a;
    return;
  }
  refuse(l);
}

void lower_copysign(Lowering& l) {
  emit_same(l, l.inst->type() == Type::F64 ? kMapOf<Copysign, double, 2> : kMapOf<Copysign, float, 2>, 2);
}

}  // namespace

void lower_float_binary(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  if (inst.types.size() > 1) return l.unsupported("mixed precision");
  switch (inst.opcode) {
    case Opcode::add:
      emit_same(l, rounded<AddF32, AddF64, 2>(inst), 2);
      return;
    case Opcode::sub:
      emit_same(l, rounded<SubF32, SubF64, 2>(inst), 2);
      return;
    case Opcode::mul:
      emit_same(l, rounded<MulF32, MulF64, 2>(inst), 2);
      return;
    case Opcode::div:
      emit_same(l, div_of(inst), 2);
      return;
    case Opcode::min:
    case Opcode::max: {
      const bool max = inst.opcode == Opcode::max;
      if (inst.operands.size() > 3) {
        emit_same(l, max ? minmax_of<true, 3>(inst) : minmax_of<false, 3>(inst), 3);
      } else {
        emit_same(l, max ? minmax_of<true, 2>(inst) : minmax_of<false, 2>(inst), 2);
      }
      return;
    }
    default:
      refuse(l);
  }
}

void lower_float_unary(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  const bool f64 = inst.type() == Type::F64, ftz = inst.has(Mod::ftz);
  if (inst.type() == Type::F32x2) return refuse(l);
  Handler handler = nullptr;
  switch (inst.opcode) {
    case Opcode::neg:
      handler = f64   ? kMapOf<NegF64, double, 1>
                : ftz ? kMapOf<NegF32<true>, float, 1>
                      : kMapOf<NegF32<false>, float, 1>;
      break;
    case Opcode::abs:
      handler = f64   ? kMapOf<AbsF64, double, 1>
                : ftz ? kMapOf<AbsF32<true>, float, 1>
                      : kMapOf<AbsF32<false>, float, 1>;
      break;
    case Opcode::rcp:
      handler = rcp_of(inst);
      break;
    case Opcode::sqrt:
      handler = sqrt_of(inst);
      break;
    case Opcode::rsqrt:
      handler = rsqrt_of(inst);
      break;
    case Opcode::sin:
      handler = approx_of<numerics::SinApprox>(inst);
      break;
    case Opcode::cos:
      handler = approx_of<numerics::CosApprox>(inst);
      break;
    case Opcode::lg2:
      handler = approx_of<numerics::Lg2Approx>(inst);
      break;
    case Opcode::ex2:
      handler = approx_of<numerics::Ex2Approx>(inst);
      break;
    case Opcode::tanh:
      handler = approx1<numerics::TanhApprox, false>;
      break;
    default:
      break;
  }
  emit_same(l, handler, 1);
}

void lower_float_ternary(Lowering& l) {
  if (l.inst->types.size() > 1) return l.unsupported("mixed precision");
  const ptx::Instruction& inst = *l.inst;
  const bool plain_f32 = inst.type() == Type::F32 && !inst.has(Mod::ftz) && !inst.has(Mod::sat);
  Handler handler = plain_f32 ? fma_directed_of(rounding_of(inst)) : nullptr;
  if (handler == nullptr) handler = rounded<FmaF32, FmaF64, 3>(inst);
  emit_same(l, handler, 3);
}

namespace {

constexpr LowerRow kRows[] = {
    {Opcode::fma, by_family<lower_nothing, lower_float_ternary, lower_half_ternary>},
    {Opcode::rcp, lower_float_unary},
    {Opcode::sqrt, lower_float_unary},
    {Opcode::rsqrt, lower_float_unary},
    {Opcode::sin, lower_float_unary},
    {Opcode::cos, lower_float_unary},
    {Opcode::lg2, lower_float_unary},
    {Opcode::ex2, by_family<lower_nothing, lower_float_unary, lower_half_unary>},
    {Opcode::tanh, by_family<lower_nothing, lower_float_unary, lower_half_unary>},
    {Opcode::testp, lower_testp},
    {Opcode::copysign, lower_copysign},
};

}  // namespace

std::span<const LowerRow> float_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
