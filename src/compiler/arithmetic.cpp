// Operations on registers: each is the same code on vectors and on the scalars that stand for them.
#include <algorithm>

#include "compiler/emitter.h"

namespace assay::compiler {

namespace {

using ptx::Mod;

struct IntegerTest {
  Mod mod;
  LLVMIntPredicate as_unsigned, as_signed;
};
constexpr IntegerTest kIntegerTests[] = {
    {Mod::eq, LLVMIntEQ, LLVMIntEQ},   {Mod::ne, LLVMIntNE, LLVMIntNE},   {Mod::lt, LLVMIntULT, LLVMIntSLT},
    {Mod::le, LLVMIntULE, LLVMIntSLE}, {Mod::gt, LLVMIntUGT, LLVMIntSGT}, {Mod::ge, LLVMIntUGE, LLVMIntSGE},
    {Mod::lo, LLVMIntULT, LLVMIntULT}, {Mod::ls, LLVMIntULE, LLVMIntULE}, {Mod::hi, LLVMIntUGT, LLVMIntUGT},
    {Mod::hs, LLVMIntUGE, LLVMIntUGE},
};
struct FloatTest {
  Mod mod;
  LLVMRealPredicate test;
};
constexpr FloatTest kFloatTests[] = {
    {Mod::eq, LLVMRealOEQ},  {Mod::ne, LLVMRealONE},  {Mod::lt, LLVMRealOLT},  {Mod::le, LLVMRealOLE},
    {Mod::gt, LLVMRealOGT},  {Mod::ge, LLVMRealOGE},  {Mod::equ, LLVMRealUEQ}, {Mod::neu, LLVMRealUNE},
    {Mod::ltu, LLVMRealULT}, {Mod::leu, LLVMRealULE}, {Mod::gtu, LLVMRealUGT}, {Mod::geu, LLVMRealUGE},
    {Mod::num, LLVMRealORD}, {Mod::nan, LLVMRealUNO},
};

bool is_float(Code code) {
  return code >= Code::FloatAdd && code <= Code::FloatAbs;
}

// The rounding of one AVX-512 instruction, without exceptions.
uint64_t embedded_rounding(Mod rounding) {
  constexpr uint64_t kNearest = 0, kDown = 1, kUp = 2, kTowardZero = 3, kNoExceptions = 8;
  return kNoExceptions | (rounding == Mod::rm   ? kDown
                          : rounding == Mod::rp ? kUp
                          : rounding == Mod::rz ? kTowardZero
                                                : kNearest);
}

// As numerics/arith.h does it: to [+0, 1], and a NaN becomes +0.
Value saturated(Ir& ir, Value x) {
  TypeRef type = LLVMTypeOf(x);
  const auto limit = [&](double value) {
    Value one = LLVMConstReal(ir.real(32), value);
    if (!Ir::is_vector(x)) return one;
    std::vector<Value> lanes(LLVMGetVectorSize(type), one);
    return LLVMConstVector(lanes.data(), static_cast<unsigned>(lanes.size()));
  };
  Value low = ir.select(LLVMBuildFCmp(ir.b, LLVMRealOGT, x, limit(0), ""), x, limit(0));
  return ir.select(LLVMBuildFCmp(ir.b, LLVMRealOLT, low, limit(1), ""), low, limit(1));
}

}  // namespace

TypeRef Emitter::like_real(Value v, unsigned bits) const {
  return Ir::is_vector(v) ? ir_.vector(ir_.real(bits), LLVMGetVectorSize(LLVMTypeOf(v))) : ir_.real(bits);
}

Value Emitter::compare(const Operation& op, Value x, Value y) {
  if (op.code == Code::Compare) {
    for (const IntegerTest& t : kIntegerTests)
      if (t.mod == op.compare) return ir_.compare(op.is_signed ? t.as_signed : t.as_unsigned, x, y);
    return nullptr;
  }
  TypeRef real = like_real(x, op.bits);
  for (const FloatTest& t : kFloatTests)
    if (t.mod == op.compare) return LLVMBuildFCmp(ir_.b, t.test, ir_.cast(x, real), ir_.cast(y, real), "");
  return nullptr;
}

Value Emitter::apply_float(const Operation& op, const std::vector<Value>& from) {
  const TypeRef integer = LLVMTypeOf(from[0]);
  const TypeRef real = like_real(from[0], op.bits);
  std::vector<Value> x;
  for (Value v : from) x.push_back(ir_.cast(v, real));
  Value r = nullptr;
  switch (op.code) {
    case Code::FloatAdd:
      r = LLVMBuildFAdd(ir_.b, x[0], x[1], "");
      break;
    case Code::FloatSub:
      r = LLVMBuildFSub(ir_.b, x[0], x[1], "");
      break;
    case Code::FloatMul:
      r = LLVMBuildFMul(ir_.b, x[0], x[1], "");
      break;
    case Code::FloatFma:
      r = op.rounding == Mod::rn ? ir_.intrinsic("llvm.fma", {real}, x) : directed_fma(op, x);
      break;
    case Code::FloatNeg:
      r = LLVMBuildFNeg(ir_.b, x[0], "");
      break;
    case Code::FloatAbs:
      r = ir_.intrinsic("llvm.fabs", {real}, x);
      break;
    default: {  // as numerics/arith.h orders them: -0 is below +0, and a NaN gives way
      const auto key = [&](Value v) {
        Value sign = LLVMBuildAShr(ir_.b, v, ir_.like(v, op.bits - 1), "");
        return LLVMBuildXor(ir_.b, v, ir_.both(sign, ir_.like(v, 0x7fffffff)), "");
      };
      const bool max = op.code == Code::FloatMax;
      Value first = ir_.compare(max ? LLVMIntSGE : LLVMIntSLT, key(from[0]), key(from[1]));
      Value v = ir_.select(first, from[0], from[1]);
      v = ir_.select(LLVMBuildFCmp(ir_.b, LLVMRealUNO, x[1], x[1], ""), from[0], v);
      return ir_.select(LLVMBuildFCmp(ir_.b, LLVMRealUNO, x[0], x[0], ""), from[1], v);
    }
  }
  if (op.saturates) r = saturated(ir_, r);
  return ir_.cast(r, integer);
}

Value Emitter::directed_fma(const Operation& op, const std::vector<Value>& x) {
  Value rounding = ir_.constant(32, embedded_rounding(op.rounding));
  if (!Ir::is_vector(x[0]))
    return ir_.intrinsic("llvm.x86.avx512.vfmadd.f32", {}, {x[0], x[1], x[2], rounding});
  Value halves[2];
  std::vector<unsigned> all;
  for (unsigned l = 0; l < kLanes; ++l) all.push_back(l);
  for (unsigned half = 0; half < 2; ++half) {
    const std::vector<unsigned> order(all.begin() + half * kHalf, all.begin() + (half + 1) * kHalf);
    const auto part = [&](Value v) { return ir_.shuffle(v, LLVMGetUndef(LLVMTypeOf(v)), order); };
    halves[half] =
        ir_.intrinsic("llvm.x86.avx512.vfmadd.ps.512", {}, {part(x[0]), part(x[1]), part(x[2]), rounding});
  }
  return ir_.shuffle(halves[0], halves[1], all);
}

Value Emitter::apply_integer(const Operation& op, const std::vector<Value>& from) {
  LLVMBuilderRef b = ir_.b;
  const auto wide = [&](Value v) {
    TypeRef type = ir_.integer(op.bits);
    if (Ir::is_vector(v)) type = ir_.vector(type);
    if (op.bits == op.from_bits) return v;
    if (op.bits < op.from_bits) return LLVMBuildTrunc(b, v, type, "");
    return op.is_signed ? LLVMBuildSExt(b, v, type, "") : LLVMBuildZExt(b, v, type, "");
  };
  const auto extreme = [&](bool max) {
    const LLVMIntPredicate p =
        max ? (op.is_signed ? LLVMIntSGT : LLVMIntUGT) : (op.is_signed ? LLVMIntSLT : LLVMIntULT);
    return ir_.select(ir_.compare(p, from[0], from[1]), from[0], from[1]);
  };
  switch (op.code) {
    case Code::Mov:
      return from[0];
    case Code::Add:
      return ir_.add(from[0], from[1]);
    case Code::Sub:
      return ir_.sub(from[0], from[1]);
    case Code::MulLo:
      return LLVMBuildMul(b, from[0], from[1], "");
    case Code::MadLo:
      return ir_.add(LLVMBuildMul(b, from[0], from[1], ""), from[2]);
    case Code::MulWide:
      return LLVMBuildMul(b, wide(from[0]), wide(from[1]), "");
    case Code::MadWide:
      return ir_.add(LLVMBuildMul(b, wide(from[0]), wide(from[1]), ""), from[2]);
    case Code::And:
      return ir_.both(from[0], from[1]);
    case Code::Or:
      return ir_.either(from[0], from[1]);
    case Code::Xor:
      return LLVMBuildXor(b, from[0], from[1], "");
    case Code::Not:
      return LLVMBuildNot(b, from[0], "");
    case Code::Neg:
      return LLVMBuildNeg(b, from[0], "");
    case Code::Abs:
      return ir_.select(ir_.compare(LLVMIntSLT, from[0], ir_.like(from[0], 0)), LLVMBuildNeg(b, from[0], ""),
                        from[0]);
    case Code::Min:
      return extreme(false);
    case Code::Max:
      return extreme(true);
    case Code::Extend:
      return wide(from[0]);
    default:
      return nullptr;
  }
}

// PTX shifts by more than the width give zeros, or copies of the sign.
static Value shift(Ir& ir, const Operation& op, Value v, Value by32) {
  TypeRef type = LLVMTypeOf(v);
  Value by = op.bits == 32  ? by32
             : op.bits < 32 ? LLVMBuildTrunc(ir.b, by32, type, "")
                            : LLVMBuildZExt(ir.b, by32, type, "");
  Value over = ir.compare(LLVMIntUGE, by32, ir.like(by32, op.bits));
  const bool sign = op.code == Code::Shr && op.is_signed;
  by = ir.select(over, ir.like(v, sign ? op.bits - 1 : 0), by);
  if (sign) return LLVMBuildAShr(ir.b, v, by, "");
  Value r = op.code == Code::Shl ? LLVMBuildShl(ir.b, v, by, "") : LLVMBuildLShr(ir.b, v, by, "");
  return ir.select(over, ir.like(v, 0), r);
}

Value Emitter::apply(const Operation& op, const std::vector<Value>& from) {
  if (is_float(op.code)) return apply_float(op, from);
  if (op.code == Code::Shl || op.code == Code::Shr) return shift(ir_, op, from[0], from[1]);
  if (op.code == Code::FloatFromInteger) {
    TypeRef real = like_real(from[0], 32);
    Value r =
        op.is_signed ? LLVMBuildSIToFP(ir_.b, from[0], real, "") : LLVMBuildUIToFP(ir_.b, from[0], real, "");
    return ir_.cast(r, LLVMTypeOf(from[0]));
  }
  if (op.code == Code::FloatSaturate)
    return ir_.cast(saturated(ir_, ir_.cast(from[0], like_real(from[0], 32))), LLVMTypeOf(from[0]));
  return apply_integer(op, from);
}

// A 32-bit scalar with steps becomes one of 64 bits with the same steps only if no lane wraps; else the interpreter
// goes on.
void Emitter::check_widening(size_t i) {
  const Operation& op = flow_.operations[i];
  const bool widens = (op.code == Code::Extend && op.bits > op.from_bits) || op.code == Code::MulWide ||
                      op.code == Code::MadWide;
  if (!widens) return;
  Value good = nullptr;
  for (size_t k = 0; k < op.from.size() && k < 2; ++k) {
    const Form f = form(op.from[k]);
    if (f.is_flat()) continue;
    for (unsigned half = 0; half <= (f.two ? 1u : 0u); ++half) {
      Value v = scalar(op.from[k], op.from_bits, half);
      TypeRef wide = ir_.integer(64);
      v = op.is_signed ? LLVMBuildSExt(ir_.b, v, wide, "") : LLVMBuildZExt(ir_.b, v, wide, "");
      const int64_t least = op.is_signed ? -(int64_t{1} << (op.from_bits - 1)) : 0;
      const int64_t most = (int64_t{1} << (op.is_signed ? op.from_bits - 1 : op.from_bits)) - 1;
      Value fits = ir_.both(
          ir_.compare(LLVMIntSGE, v,
                      ir_.constant(64, static_cast<uint64_t>(least - std::min<int64_t>(f.lowest(), 0)))),
          ir_.compare(LLVMIntSLE, v,
                      ir_.constant(64, static_cast<uint64_t>(most - std::max<int64_t>(f.highest(), 0)))));
      good = good ? ir_.both(good, fits) : fits;
    }
  }
  if (!good) return;
  BlockRef goes = ir_.block("fits");
  ir_.likely(good, goes, exit_at(i));
  ir_.at(goes);
}

bool Emitter::emit_arithmetic(size_t i) {
  const Operation& op = flow_.operations[i];
  const uint32_t to = op.to[0];
  const Form& result = forms_[to];
  LLVMBuilderRef b = ir_.b;
  switch (op.code) {
    case Code::PredicateAnd:
      set(to, ir_.both(mask(op.from[0].reg), mask(op.from[1].reg)));
      return true;
    case Code::PredicateOr:
      set(to, ir_.either(mask(op.from[0].reg), mask(op.from[1].reg)));
      return true;
    case Code::PredicateXor:
      set(to, LLVMBuildXor(b, mask(op.from[0].reg), mask(op.from[1].reg), ""));
      return true;
    case Code::PredicateNot:
      set(to, LLVMBuildNot(b, mask(op.from[0].reg), ""));
      return true;
    case Code::Compare:
    case Code::FloatCompare: {
      if (form(op.from[0]).is_uniform() && form(op.from[1]).is_uniform()) {
        Value x = scalar(op.from[0], op.bits, 0), y = scalar(op.from[1], op.bits, 0);
        if (op.code == Code::Compare) x = exact(x, op.from[0], op.bits), y = exact(y, op.from[1], op.bits);
        Value c = compare(op, x, y);
        if (!c) return false;
        set(to, LLVMBuildSExt(b, c, ir_.integer(32), ""));
        return true;
      }
      Value x = lanes(op.from[0], op.bits), y = lanes(op.from[1], op.bits);
      if (op.code == Code::Compare) x = exact(x, op.from[0], op.bits), y = exact(y, op.from[1], op.bits);
      Value c = compare(op, x, y);
      if (!c) return false;
      set(to, ir_.cast(c, ir_.integer(32)));
      return true;
    }
    case Code::Mov:
      if (op.bits == 1) {
        set(to, mask(op.from[0].reg));
        return true;
      }
      break;
    default:
      break;
  }
  const bool loose = is_float(op.code) || ((op.code == Code::Mov || op.code == Code::Select) && loose_[to]);
  const auto bits_of_source = [&](size_t k) {
    if ((op.code == Code::Shl || op.code == Code::Shr) && k == 1) return 32u;
    return (op.from_bits != 0 && k < 2) ? op.from_bits : op.bits;
  };
  const bool scalars = result.is_scalar();
  if (scalars) check_widening(i);
  for (unsigned half = 0; half <= (scalars && result.two ? 1u : 0u); ++half) {
    std::vector<Value> from;
    for (size_t k = 0; k < op.from.size(); ++k) {
      if (op.code == Code::Select && k == 2) break;
      Value v = scalars ? scalar(op.from[k], bits_of_source(k), half) : lanes(op.from[k], bits_of_source(k));
      from.push_back(loose ? v : exact(v, op.from[k], bits_of_source(k)));
    }
    Value v;
    if (op.code == Code::Select) {
      Value m = mask(op.from[2].reg);
      Value c = forms_[op.from[2].reg].is_scalar() ? LLVMBuildTrunc(b, m, ir_.integer(1), "")
                                                   : ir_.cast(m, ir_.vector(ir_.integer(1)));
      v = ir_.select(c, from[0], from[1]);
    } else {
      v = apply(op, from);
    }
    if (!v) return false;
    if (is_float(op.code) && !loose_[to]) v = canonical(v, op.bits);
    set(to, v, half);
  }
  return true;
}

}  // namespace assay::compiler
