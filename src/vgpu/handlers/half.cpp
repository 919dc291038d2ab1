// f16 and bf16, single and packed in pairs. The arithmetic is in numerics/half.h; here are the tables.
#include "numerics/half.h"

#include "numerics/approx.h"
#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using numerics::BF16;
using numerics::F16;
using numerics::HalfMode;

template <auto Function>
struct Single {
  template <class... S>
  static uint16_t apply(S... s) {
    return Function(s...);
  }
};
// A plane of pairs is 64 halves side by side.
template <auto Function, size_t Sources>
[[gnu::flatten]] const Inst* both(Warp& w, const Inst& i) {
  constexpr uint32_t kHalves = 2 * kWarpSize;
  const uint32_t lanes = w.lanes_of(i);
  alignas(64) uint16_t partial[kHalves];
  uint16_t* d = lanes == kAllLanes ? w.plane<uint16_t>(i.dst) : partial;
  const uint16_t *a = w.plane<uint16_t>(i.a), *b = w.plane<uint16_t>(i.b), *c = w.plane<uint16_t>(i.c);
#pragma GCC ivdep
  for (uint32_t l = 0; l < kHalves; ++l) {
    if constexpr (Sources == 1) d[l] = Function(a[l]);
    if constexpr (Sources == 2) d[l] = Function(a[l], b[l]);
    if constexpr (Sources == 3) d[l] = Function(a[l], b[l], c[l]);
  }
  if (lanes != kAllLanes) [[unlikely]] {
    uint16_t* out = w.plane<uint16_t>(i.dst);
    for (uint32_t l = 0; l < kHalves; ++l) out[l] = lanes >> l / 2 & 1 ? partial[l] : out[l];
  }
  if constexpr (Sources == 1) spread_poison<uint32_t>(w, i, lanes, i.a);
  if constexpr (Sources == 2) spread_poison<uint32_t>(w, i, lanes, i.a, i.b);
  if constexpr (Sources == 3) spread_poison<uint32_t>(w, i, lanes, i.a, i.b, i.c);
  return &i + 1;
}
template <auto Function, size_t Sources>
Handler handler(bool packed) {
  return packed ? both<Function, Sources> : kMapOf<Single<Function>, uint16_t, Sources>;
}

bool is_packed(Type type) {
  return type == Type::F16x2 || type == Type::BF16x2;
}
bool is_bf16(Type type) {
  return type == Type::BF16 || type == Type::BF16x2;
}

// ---- Operations with modes ----

struct Add {
  static constexpr size_t kSources = 2;
  template <class H, HalfMode M>
  static constexpr auto kFunction = numerics::add_half<H, M>;
};
struct Sub {
  static constexpr size_t kSources = 2;
  template <class H, HalfMode M>
  static constexpr auto kFunction = numerics::sub_half<H, M>;
};
struct Mul {
  static constexpr size_t kSources = 2;
  template <class H, HalfMode M>
  static constexpr auto kFunction = numerics::mul_half<H, M>;
};
struct Fma {
  static constexpr size_t kSources = 3;
  template <class H, HalfMode M>
  static constexpr auto kFunction = numerics::fma_half<H, M>;
};
struct FmaOob {
  static constexpr size_t kSources = 3;
  template <class H, HalfMode M>
  static constexpr auto kFunction = numerics::fma_oob_half<H, M>;
};

// Ftz and Sat exist for f16 only, and Sat and Relu exclude each other.
template <class Op>
Handler with_modes(const ptx::Instruction& inst) {
  const bool packed = is_packed(inst.type()), ftz = inst.has(Mod::ftz), sat = inst.has(Mod::sat);
  const bool relu = inst.has(Mod::relu);
  if (sat && relu) return nullptr;
  if (is_bf16(inst.type())) {
    if (ftz || sat) return nullptr;
    return relu ? handler<Op::template kFunction<BF16, HalfMode{false, false, true}>, Op::kSources>(packed)
                : handler<Op::template kFunction<BF16, HalfMode{}>, Op::kSources>(packed);
  }
  if (ftz) {
    return sat    ? handler<Op::template kFunction<F16, HalfMode{true, true, false}>, Op::kSources>(packed)
           : relu ? handler<Op::template kFunction<F16, HalfMode{true, false, true}>, Op::kSources>(packed)
                  : handler<Op::template kFunction<F16, HalfMode{true, false, false}>, Op::kSources>(packed);
  }
  return sat    ? handler<Op::template kFunction<F16, HalfMode{false, true, false}>, Op::kSources>(packed)
         : relu ? handler<Op::template kFunction<F16, HalfMode{false, false, true}>, Op::kSources>(packed)
                : handler<Op::template kFunction<F16, HalfMode{}>, Op::kSources>(packed);
}

// ---- min and max ----

template <class H, bool Max, bool Ftz>
Handler minmax_of(bool nan, bool xorsign, bool packed) {
  if (nan) {
    return xorsign ? handler<numerics::minmax_half<H, Max, Ftz, true, true>, 2>(packed)
                   : handler<numerics::minmax_half<H, Max, Ftz, true, false>, 2>(packed);
  }
  return xorsign ? handler<numerics::minmax_half<H, Max, Ftz, false, true>, 2>(packed)
                 : handler<numerics::minmax_half<H, Max, Ftz, false, false>, 2>(packed);
}

template <bool Max>
Handler minmax(const ptx::Instruction& inst) {
  const bool nan = inst.has(Mod::NaN), xorsign = inst.has(Mod::xorsign), packed = is_packed(inst.type());
  if (is_bf16(inst.type()))
    return inst.has(Mod::ftz) ? nullptr : minmax_of<BF16, Max, false>(nan, xorsign, packed);
  return inst.has(Mod::ftz) ? minmax_of<F16, Max, true>(nan, xorsign, packed)
                            : minmax_of<F16, Max, false>(nan, xorsign, packed);
}

// ---- Unary ----

template <bool Ftz>
uint16_t ex2_f16(uint16_t x) {
  return numerics::ex2_approx_f16(x, Ftz);
}

Handler unary(const ptx::Instruction& inst) {
  const bool packed = is_packed(inst.type()), ftz = inst.has(Mod::ftz), bf16 = is_bf16(inst.type());
  switch (inst.opcode) {
    case Opcode::neg:
      return bf16  ? handler<numerics::neg_half<BF16, false>, 1>(packed)
             : ftz ? handler<numerics::neg_half<F16, true>, 1>(packed)
                   : handler<numerics::neg_half<F16, false>, 1>(packed);
    case Opcode::abs:
      return bf16  ? handler<numerics::abs_half<BF16, false>, 1>(packed)
             : ftz ? handler<numerics::abs_half<F16, true>, 1>(packed)
                   : handler<numerics::abs_half<F16, false>, 1>(packed);
    case Opcode::ex2:
      return bf16  ? handler<numerics::ex2_approx_bf16, 1>(packed)
             : ftz ? handler<ex2_f16<true>, 1>(packed)
                   : handler<ex2_f16<false>, 1>(packed);
    case Opcode::tanh:
      return bf16 ? handler<numerics::tanh_approx_bf16, 1>(packed)
                  : handler<numerics::tanh_approx_f16, 1>(packed);
    default:
      return nullptr;
  }
}

}  // namespace

void lower_half_unary(Lowering& l) {
  emit_same(l, unary(*l.inst), 1);
}

void lower_half_binary(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  if (inst.types.size() > 1 || inst.operands.size() > 3) return refuse(l);
  switch (inst.opcode) {
    case Opcode::add:
      emit_same(l, inst.has(Mod::relu) ? nullptr : with_modes<Add>(inst), 2);
      return;
    case Opcode::sub:
      emit_same(l, inst.has(Mod::relu) ? nullptr : with_modes<Sub>(inst), 2);
      return;
    case Opcode::mul:
      emit_same(l, inst.has(Mod::relu) ? nullptr : with_modes<Mul>(inst), 2);
      return;
    case Opcode::min:
      emit_same(l, minmax<false>(inst), 2);
      return;
    case Opcode::max:
      emit_same(l, minmax<true>(inst), 2);
      return;
    default:
      refuse(l);
  }
}

void lower_half_ternary(Lowering& l) {
  if (l.inst->types.size() > 1) return refuse(l);
  emit_same(l, l.inst->has(Mod::oob) ? with_modes<FmaOob>(*l.inst) : with_modes<Fma>(*l.inst), 3);
}

// Every instruction of halves is one of floats, too: their rows are in float.cpp and integer.cpp.
std::span<const LowerRow> half_rows() {
  return {};
}

}  // namespace assay::vgpu::ASSAY_BUILD
