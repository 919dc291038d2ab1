// The arithmetic of the matrix instructions, on rows of A and columns of B as words.
#include "numerics/arith.h"
#include "vgpu/handlers/matrix.h"
#include "vgpu/handlers/types.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using numerics::Rounding;

// ---- Integers ----

inline constexpr uint32_t kMaxIntegers = 64;  // of a row: 8 words of 4-bit elements

template <int Bits, bool Signed>
void unpack(const uint32_t* words, uint32_t count, int32_t* out) {
  constexpr uint32_t kEach = 32 / Bits;
  for (uint32_t w = 0; w < count; ++w) {
    for (uint32_t e = 0; e < kEach; ++e) {
      const uint32_t top = words[w] << (32 - Bits * (e + 1));
      out[w * kEach + e] =
          Signed ? static_cast<int32_t>(top) >> (32 - Bits) : static_cast<int32_t>(top >> (32 - Bits));
    }
  }
}

template <int Bits, bool ASigned, bool BSigned>
void integers(const MmaForm& f, const uint32_t (*rows)[kMaxWords], const uint32_t (*columns)[kMaxWords],
              uint32_t (*c)[kMaxColumns]) {
  alignas(64) int32_t a[kMaxIntegers], b[kMaxColumns][kMaxIntegers];
  for (uint32_t col = 0; col < f.n; ++col) unpack<Bits, BSigned>(columns[col], f.words, b[col]);
  for (uint32_t row = 0; row < f.m; ++row) {
    unpack<Bits, ASigned>(rows[row], f.words, a);
    for (uint32_t col = 0; col < f.n; ++col) {
      int32_t sum = 0;  // at most 64 products of 16 bits
      for (uint32_t k = 0; k < f.k; ++k) sum += a[k] * b[col][k];
      const int64_t exact = static_cast<int64_t>(static_cast<int32_t>(c[row][col])) + sum;
      const int64_t clamped = exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact;
      c[row][col] = static_cast<uint32_t>(f.saturates ? clamped : exact);
    }
  }
}

template <bool And>
void single_bits(const MmaForm& f, const uint32_t (*rows)[kMaxWords], const uint32_t (*columns)[kMaxWords],
                 uint32_t (*c)[kMaxColumns]) {
  for (uint32_t row = 0; row < f.m; ++row) {
    for (uint32_t col = 0; col < f.n; ++col) {
      uint32_t count = 0;
      for (uint32_t k = 0; k < f.words; ++k) {
        const uint32_t x = rows[row][k], y = columns[col][k];
        count += static_cast<uint32_t>(__builtin_popcount(And ? x & y : x ^ y));
      }
      c[row][col] += count;
    }
  }
}

// ---- f64: a chain of fused multiply-adds ----

double fused(uint8_t rounding, double a, double b, double c) {
  switch (static_cast<Rounding>(rounding)) {
    case Rounding::TowardZero:
      return numerics::fma_f64<Rounding::TowardZero>(a, b, c);
    case Rounding::Down:
      return numerics::fma_f64<Rounding::Down>(a, b, c);
    case Rounding::Up:
      return numerics::fma_f64<Rounding::Up>(a, b, c);
    default:
      return numerics::fma_f64<Rounding::NearestEven>(a, b, c);
  }
}

void doubles(const MmaForm& f, const uint64_t (*rows)[kMaxWords], const uint64_t (*columns)[kMaxWords],
             uint64_t (*c)[kMaxColumns]) {
  for (uint32_t row = 0; row < f.m; ++row) {
    for (uint32_t col = 0; col < f.n; ++col) {
      double sum = numerics::f64_of(c[row][col]);
      for (uint32_t k = 0; k < f.k; ++k) {
        sum = fused(f.rounding, numerics::f64_of(rows[row][k]), numerics::f64_of(columns[col][k]), sum);
      }
      c[row][col] = numerics::bits_of(sum);
    }
  }
}

// ---- Tables ----

using Erased = void (*)();

template <int Bits>
Erased integers_of(bool a_signed, bool b_signed) {
  constexpr Arithmetic<uint32_t, uint32_t> kTable[2][2] = {
      {integers<Bits, false, false>, integers<Bits, false, true>},
      {integers<Bits, true, false>, integers<Bits, true, true>}};
  return reinterpret_cast<Erased>(kTable[a_signed][b_signed]);
}

bool is_byte(Type type) {
  return type == Type::S8 || type == Type::U8;
}
bool is_nibble(Type type) {
  return type == Type::S4 || type == Type::U4;
}

Rounding rounding_of(const ptx::Instruction& inst) {
  return inst.has(Mod::rz)   ? Rounding::TowardZero
         : inst.has(Mod::rm) ? Rounding::Down
         : inst.has(Mod::rp) ? Rounding::Up
                             : Rounding::NearestEven;
}

}  // namespace

bool describe_arithmetic(const ptx::Instruction& inst, Type d, Type a, Type b, Type c, MmaForm& form) {
  form.saturates = inst.has(Mod::satfinite);
  form.rounding = static_cast<uint8_t>(rounding_of(inst));
  form.arithmetic = nullptr;
  if (d == Type::S32 && c == Type::S32) {
    if (is_byte(a) && is_byte(b)) form.arithmetic = integers_of<8>(is_signed(a), is_signed(b));
    if (is_nibble(a) && is_nibble(b)) form.arithmetic = integers_of<4>(is_signed(a), is_signed(b));
    if (a == Type::B1 && b == Type::B1) {
      form.arithmetic = inst.has(Mod::and_) ? reinterpret_cast<Erased>(single_bits<true>)
                                            : reinterpret_cast<Erased>(single_bits<false>);
    }
  } else if (d == Type::F64 && a == Type::F64 && b == Type::F64 && c == Type::F64) {
    form.arithmetic = reinterpret_cast<Erased>(doubles);
  }
  return form.arithmetic != nullptr;
}

}  // namespace assay::vgpu::ASSAY_BUILD
