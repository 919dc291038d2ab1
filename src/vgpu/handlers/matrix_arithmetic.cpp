// The arithmetic of the matrix instructions: from packed rows and columns to numerics/tensor_core.h.
#include "numerics/arith.h"
#include "numerics/tensor_core.h"
#include "vgpu/handlers/matrix.h"
#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using numerics::MmaShape;
using numerics::Rounding;

MmaShape shape_of(const MmaForm& f) {
  return {static_cast<int>(f.m), static_cast<int>(f.n), static_cast<int>(f.k)};
}

void f16_f32(const MmaForm& f, Matrices& x) {
  float* c = x.as<float>(x.c);
  numerics::mma_f16_f32(shape_of(f), x.as<uint16_t>(x.a), x.as<uint16_t>(x.b), c, c);
}
void bf16_f32(const MmaForm& f, Matrices& x) {
  float* c = x.as<float>(x.c);
  numerics::mma_bf16_f32(shape_of(f), x.as<uint16_t>(x.a), x.as<uint16_t>(x.b), c, c);
}
void tf32_f32(const MmaForm& f, Matrices& x) {
  float* c = x.as<float>(x.c);
  numerics::mma_tf32_f32(shape_of(f), x.as<uint32_t>(x.a), x.as<uint32_t>(x.b), c, c);
}
void f16_f16(const MmaForm& f, Matrices& x) {
  uint16_t* c = x.as<uint16_t>(x.c);
  numerics::mma_f16_f16(shape_of(f), x.as<uint16_t>(x.a), x.as<uint16_t>(x.b), c, c);
}
// An accumulator that widens (wmma): f16 is exact in f32.
void f16_widening(const MmaForm& f, Matrices& x) {
  alignas(64) float c[256];
  for (uint32_t i = 0; i < f.m * f.n; ++i) c[i] = numerics::f16_to_f32(x.as<uint16_t>(x.c)[i]);
  numerics::mma_f16_f32(shape_of(f), x.as<uint16_t>(x.a), x.as<uint16_t>(x.b), c, x.as<float>(x.c));
}

// One that narrows (wmma): Hopper's compiler takes the f32 product and rounds its result.
void f16_narrowing(const MmaForm& f, Matrices& x) {
  alignas(64) float d[256];
  numerics::mma_f16_f32(shape_of(f), x.as<uint16_t>(x.a), x.as<uint16_t>(x.b), x.as<float>(x.c), d);
  for (uint32_t i = 0; i < f.m * f.n; ++i) x.as<uint16_t>(x.c)[i] = numerics::f32_to_f16_rn(d[i]);
}

// m8n8k4 is not native on Hopper: a chain of fused multiply-adds in f32 from the first product, and c
// added last.
template <class D, class C>
void chain(const MmaForm& f, Matrices& x) {
  const uint16_t *a = x.as<uint16_t>(x.a), *b = x.as<uint16_t>(x.b);
  const auto value = numerics::f16_to_f32;
  D d[64];
  for (uint32_t row = 0; row < f.m; ++row) {
    for (uint32_t col = 0; col < f.n; ++col) {
      float sum = numerics::mul_f32(value(a[row * f.k]), value(b[col * f.k]));
      if constexpr (sizeof(D) == 4) sum += 0.0f;  // f32 results start from +0: -0 is lost
      for (uint32_t k = 1; k < f.k; ++k) {
        sum = numerics::fma_f32(value(a[row * f.k + k]), value(b[col * f.k + k]), sum);
      }
      const C c = x.as<C>(x.c)[row * f.n + col];
      if constexpr (sizeof(C) == 2) {
        sum = numerics::add_f32(sum, value(c));
      } else {
        sum = numerics::add_f32(sum, c);
      }
      if constexpr (sizeof(D) == 2) {
        d[row * f.n + col] = numerics::f32_to_f16_rn(sum);
      } else {
        d[row * f.n + col] = sum;
      }
    }
  }
  std::memcpy(x.c, d, sizeof d);
}

numerics::Format fp8_format(Type type) {
  return type == Type::E4M3 ? numerics::Format::E4M3 : numerics::Format::E5M2;
}
void fp8_f32(const MmaForm& f, Matrices& x) {
  float* c = x.as<float>(x.c);
  numerics::mma_fp8_f32(shape_of(f), fp8_format(f.a_type), fp8_format(f.b_type), x.as<uint8_t>(x.a),
                        x.as<uint8_t>(x.b), c, c);
}
void fp8_f16(const MmaForm& f, Matrices& x) {
  uint16_t* c = x.as<uint16_t>(x.c);
  numerics::mma_fp8_f16(shape_of(f), fp8_format(f.a_type), fp8_format(f.b_type), x.as<uint8_t>(x.a),
                        x.as<uint8_t>(x.b), c, c);
}
void f64(const MmaForm& f, Matrices& x) {
  double* c = x.as<double>(x.c);
  numerics::mma_f64(shape_of(f), static_cast<Rounding>(f.rounding), x.as<double>(x.a), x.as<double>(x.b), c,
                    c);
}

// Rows of packed integers, widened.
template <int Bits, bool Signed>
void widen(const uint32_t* words, uint32_t count, int16_t* out) {
  constexpr uint32_t kEach = 32 / Bits;
  for (uint32_t w = 0; w < count; ++w) {
    for (uint32_t e = 0; e < kEach; ++e) {
      const uint32_t top = words[w] << (32 - Bits * (e + 1));
      out[w * kEach + e] = static_cast<int16_t>(Signed ? static_cast<int32_t>(top) >> (32 - Bits)
                                                       : static_cast<int32_t>(top >> (32 - Bits)));
    }
  }
}
void widen_type(Type type, const uint32_t* words, uint32_t count, int16_t* out) {
  switch (type) {
    case Type::S8:
      return widen<8, true>(words, count, out);
    case Type::U8:
      return widen<8, false>(words, count, out);
    case Type::S4:
      return widen<4, true>(words, count, out);
    default:
      return widen<4, false>(words, count, out);
  }
}
void integers(const MmaForm& f, Matrices& x) {
  alignas(64) int16_t a[2048], b[2048];
  widen_type(f.a_type, x.as<uint32_t>(x.a), f.m * f.words, a);
  widen_type(f.b_type, x.as<uint32_t>(x.b), f.n * f.words, b);
  int32_t* c = x.as<int32_t>(x.c);
  numerics::mma_s32(shape_of(f), f.saturates, a, b, c, c);
}
void single_bits(const MmaForm& f, Matrices& x) {
  int32_t* c = x.as<int32_t>(x.c);
  numerics::mma_b1(shape_of(f), f.counts_and ? numerics::BitOperation::And : numerics::BitOperation::Xor,
                   x.as<uint32_t>(x.a), x.as<uint32_t>(x.b), c, c);
}

// ---- Which types go with which ----

enum class Kind : uint8_t { None, F16, BF16, TF32, F64, Fp8, Byte, Nibble, Bit, F32, S32 };

struct KindRow {
  Type type;
  Kind kind;
};
constexpr KindRow kKinds[] = {
    {Type::F16, Kind::F16},   {Type::BF16, Kind::BF16}, {Type::TF32, Kind::TF32}, {Type::F64, Kind::F64},
    {Type::E4M3, Kind::Fp8},  {Type::E5M2, Kind::Fp8},  {Type::S8, Kind::Byte},   {Type::U8, Kind::Byte},
    {Type::S4, Kind::Nibble}, {Type::U4, Kind::Nibble}, {Type::B1, Kind::Bit},    {Type::F32, Kind::F32},
    {Type::S32, Kind::S32},
};
Kind element_kind(Type type) {
  for (const KindRow& row : kKinds) {
    if (row.type == type) return row.kind;
  }
  return Kind::None;
}

struct ArithmeticRow {
  Kind d, ab, c;
  void (*arithmetic)(const MmaForm&, Matrices&);
};
constexpr ArithmeticRow kArithmetic[] = {
    {Kind::F32, Kind::F16, Kind::F32, f16_f32},      {Kind::F32, Kind::BF16, Kind::F32, bf16_f32},
    {Kind::F32, Kind::TF32, Kind::F32, tf32_f32},    {Kind::F16, Kind::F16, Kind::F16, f16_f16},
    {Kind::F32, Kind::F16, Kind::F16, f16_widening}, {Kind::F16, Kind::F16, Kind::F32, f16_narrowing},
    {Kind::F32, Kind::Fp8, Kind::F32, fp8_f32},      {Kind::F16, Kind::Fp8, Kind::F16, fp8_f16},
    {Kind::F64, Kind::F64, Kind::F64, f64},          {Kind::S32, Kind::Byte, Kind::S32, integers},
    {Kind::S32, Kind::Nibble, Kind::S32, integers},  {Kind::S32, Kind::Bit, Kind::S32, single_bits},
};

Rounding rounding_of(const ptx::Instruction& inst) {
  return inst.has(Mod::rz)   ? Rounding::TowardZero
         : inst.has(Mod::rm) ? Rounding::Down
         : inst.has(Mod::rp) ? Rounding::Up
                             : Rounding::NearestEven;
}

}  // namespace

bool describe_arithmetic(const ptx::Instruction& inst, Type d, Type a, Type b, Type c, MmaForm& form) {
  form.a_type = a, form.b_type = b;
  form.saturates = inst.has(Mod::satfinite);
  form.counts_and = inst.has(Mod::and_);
  form.rounding = static_cast<uint8_t>(rounding_of(inst));
  form.arithmetic = nullptr;
  if (element_kind(a) != element_kind(b) || (form.saturates && d != Type::S32)) return false;
  for (const ArithmeticRow& row : kArithmetic) {
    if (row.d == element_kind(d) && row.ab == element_kind(a) && row.c == element_kind(c))
      form.arithmetic = row.arithmetic;
  }
  if (a == Type::F16 && form.k == 4 && form.arithmetic != nullptr) {
    form.arithmetic = d == Type::F16   ? chain<uint16_t, uint16_t>
                      : c == Type::F16 ? chain<float, uint16_t>
                                       : chain<float, float>;
  }
  return form.arithmetic != nullptr;
}

}  // namespace assay::vgpu::ASSAY_BUILD
