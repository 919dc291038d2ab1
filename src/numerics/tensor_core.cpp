#include "numerics/tensor_core.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>

#include "numerics/arith.h"
#include "numerics/half.h"

namespace assay::numerics {
namespace {

constexpr int kFraction = 25;            // bits kept below the largest exponent
constexpr int kNoTerm = -100000;         // the exponent of a term that is zero
constexpr int kOnlyZeros = kNoTerm / 2;  // largest exponents below this one: every term is zero
constexpr int32_t kSpecial = 1000000;    // and of infinities and NaNs: times zero they are still special

// ---- the definition ---------------------------------------------------------

// significand * 2^(exponent - point); NaN and infinity are flagged.
struct Term {
  bool nan = false;
  bool infinite = false;
  bool negative = false;
  int exponent = kNoTerm;
  int point = 0;
  uint64_t significand = 0;
};

Term term_of(Format format, uint64_t code) {
  const FormatInfo& f = info(format);
  Term t;
  t.negative = sign_of(format, code);
  const Class c = classify(format, code);
  t.nan = c == Class::NaN;
  t.infinite = c == Class::Infinity;
  if (t.nan || t.infinite || c == Class::Zero) return t;
  const uint64_t magnitude = code >> f.unused_bits;
  const auto stored =
      static_cast<int>((magnitude >> f.fraction_bits) & ((uint64_t{1} << f.exponent_bits) - 1));
  t.significand = magnitude & ((uint64_t{1} << f.fraction_bits) - 1);
  if (stored != 0) t.significand |= uint64_t{1} << f.fraction_bits;
  t.exponent = std::max(stored, 1) - f.bias;
  t.point = f.fraction_bits;
  return t;
}

Term product(const Term& a, const Term& b) {
  Term p;
  p.negative = a.negative != b.negative;
  const bool a_zero = !a.infinite && a.significand == 0;
  const bool b_zero = !b.infinite && b.significand == 0;
  p.nan = a.nan || b.nan || (a.infinite && b_zero) || (b.infinite && a_zero);
  p.infinite = !p.nan && (a.infinite || b.infinite);
  if (p.nan || p.infinite || a_zero || b_zero) return p;
  p.exponent = a.exponent + b.exponent;
  p.point = a.point + b.point;
  p.significand = a.significand * b.significand;
  return p;
}

int64_t aligned(const Term& t, int largest) {
  if (t.significand == 0) return 0;
  const int shift = t.exponent - t.point - (largest - kFraction);
  uint64_t magnitude = 0;
  if (shift >= 0) {
    magnitude = t.significand << shift;
  } else if (shift > -64) {
    magnitude = t.significand >> -shift;
  }
  return t.negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

uint64_t sum_terms(const Term* terms, int count, Format accumulator) {
  bool nan = false;
  bool plus = false;
  bool minus = false;
  int largest = kNoTerm;
  for (int i = 0; i < count; ++i) {
    nan |= terms[i].nan;
    plus |= terms[i].infinite && !terms[i].negative;
    minus |= terms[i].infinite && terms[i].negative;
    largest = std::max(largest, terms[i].exponent);
  }
  if (nan || (plus && minus)) return info(accumulator).canonical_nan;
  if (plus || minus) return from_double(accumulator, plus ? HUGE_VAL : -HUGE_VAL);
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += aligned(terms[i], largest);
  if (sum == 0) return 0;
  Exact exact;
  exact.negative = sum < 0;
  exact.significand = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  exact.exponent = largest - kFraction;
  if (accumulator != Format::F32) return from_exact(accumulator, exact, Rounding::NearestEven);
  // Toward zero, but what is beyond the largest number is infinite.
  constexpr int kBeyond = 128;
  if (static_cast<int>(std::bit_width(static_cast<uint64_t>(exact.significand))) + exact.exponent > kBeyond)
    return from_double(accumulator, exact.negative ? -HUGE_VAL : HUGE_VAL);
  return from_exact(accumulator, exact, Rounding::TowardZero);
}

}  // namespace

uint64_t dot(Format format, int k, const uint64_t* a, const uint64_t* b, Format accumulator, uint64_t c) {
  Term terms[kMmaMaxK + 1];
  for (int i = 0; i < k; ++i) terms[i] = product(term_of(format, a[i]), term_of(format, b[i]));
  terms[k] = term_of(accumulator, c);
  return sum_terms(terms, k + 1, accumulator);
}

namespace {

// ---- the fast way -----------------------------------------------------------
//
// One row of D at a time, eight columns in a vector register. A product of the
// 16-bit formats is exact in float; scaled so that the last bit to keep has
// weight one, its truncation is the conversion to int32. Two sums of eight
// terms each cannot overflow. This is right where the largest exponent leaves
// room on both sides in float; where it does not, and for infinities and NaNs,
// the element is computed by the definition. Where every term is zero, as in
// the rows of a tile beyond the end of a matrix, the sum is +0.

constexpr int kColumns = 8;
constexpr int kLowest = -90;  // of the largest exponents that the fast way takes
constexpr int kHighest = 90;

typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
typedef uint32_t Words __attribute__((vector_size(32)));  // sums of lanes that may be nonsense wrap
typedef double Doubles __attribute__((vector_size(64)));

// A matrix as floats and exponents: A row by row, B as [k][column], eight columns.
template <int kSize>
struct Decoded {
  alignas(64) float value[kSize];
  alignas(64) int32_t exponent[kSize];
};

// The exponent of a float as the tensor core sees it in `format`.
template <Format F>
int32_t exponent_of(float x) {
  constexpr int kBias = 127;
  constexpr int kMin = F == Format::F16 ? -14 : -126;
  const auto stored = static_cast<int32_t>((bits_of(x) >> 23) & 0xff);
  const int32_t e = std::max(stored - kBias, kMin);
  const int32_t finite = pick(stored == 255, kSpecial, e);
  return pick(x == 0.0f, static_cast<int32_t>(kNoTerm), finite);
}

template <Format F, class Code>
float value_of(Code code) {
  if constexpr (F == Format::BF16) return bf16_to_f32(code);
  if constexpr (F == Format::TF32) return tf32_to_f32(code);
}

template <Format F, class Code, int kSize>
void decode(const Code* codes, int count, Decoded<kSize>& out) {
  if constexpr (F == Format::F16) {  // counts are multiples of eight
    for (int i = 0; i < count; i += 8) {
      const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
      _mm256_store_ps(out.value + i, _mm256_cvtph_ps(eight));
    }
  } else {
    for (int i = 0; i < count; ++i) out.value[i] = value_of<F>(codes[i]);
  }
  for (int i = 0; i < count; ++i) out.exponent[i] = exponent_of<F>(out.value[i]);
}

template <Format F, class Code, int kSize>
void decode_columns(const Code* b, int k, Decoded<kSize>& out) {
  Code transposed[kSize];
  for (int j = 0; j < kColumns; ++j) {
    for (int i = 0; i < k; ++i)
      transposed[i * kColumns + j] = b[j * k + i];  // NOLINT(clang-analyzer-core.uninitialized.Assign)
  }
  decode<F>(transposed, k * kColumns, out);
}

template <class Vector, class Element>
Vector load(const Element* from) {
  Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

// 2^e, for e in the range of normal floats.
Floats power(Ints e) {
  return std::bit_cast<Floats>((e + 127) << 23);
}

struct RowSum {
  bool all_fast;
  Ints largest;   // exponents
  Doubles exact;  // the sums, where is_fast(largest)
};

constexpr int kMaxRows = 16;
using RowsA = Decoded<kMmaMaxK * kMaxRows>;
using ColumnsB = Decoded<kMmaMaxK * kColumns>;

template <int kSteps>
RowSum row_sum(const float* a, const int32_t* a_exponent, const ColumnsB& b, const float* c,
               Ints c_exponent) {
  Ints best[2] = {c_exponent, c_exponent};  // two chains, for the sake of latency
  for (int i = 0; i < kSteps; ++i) {
    const Ints e = load<Ints>(&b.exponent[i * kColumns]) + a_exponent[i];
    best[i % 2] = e > best[i % 2] ? e : best[i % 2];
  }
  const Ints largest = best[0] > best[1] ? best[0] : best[1];
  const Ints fast = (largest >= kLowest) & (largest <= kHighest);
  const Floats scale = power(fast ? kFraction - largest : Ints{} - 126);
  const auto whole = [](Floats x) { return std::bit_cast<Words>(__builtin_convertvector(x, Ints)); };
  Words even = whole(load<Floats>(c) * scale);
  Words odd{};
  for (int i = 0; i < kSteps; i += 2) {
    even += whole(load<Floats>(&b.value[i * kColumns]) * a[i] * scale);
    odd += whole(load<Floats>(&b.value[(i + 1) * kColumns]) * a[i + 1] * scale);
  }
  const Doubles sum = __builtin_convertvector(std::bit_cast<Ints>(even), Doubles) +
                      __builtin_convertvector(std::bit_cast<Ints>(odd), Doubles);
  const Floats unit = power(fast ? largest - kFraction : Ints{});
  const auto lanes = std::bit_cast<std::array<int64_t, 4>>(fast | (largest < kOnlyZeros));
  const bool all_fast = (lanes[0] & lanes[1] & lanes[2] & lanes[3]) == -1;
  return {all_fast, largest, sum * __builtin_convertvector(unit, Doubles)};
}

// Toward zero: to nearest, and one code back where that went too far.
Floats truncated(const Doubles& x) {
  const Floats nearest = __builtin_convertvector(x, Floats);
  const Doubles back = __builtin_convertvector(nearest, Doubles);
  const auto past = x < 0 ? back < x : back > x;
  return std::bit_cast<Floats>(std::bit_cast<Ints>(nearest) + __builtin_convertvector(past, Ints));
}

bool is_fast(int32_t largest) {
  return (largest >= kLowest && largest <= kHighest) || largest < kOnlyZeros;
}

template <Format F, class Code>
uint64_t by_definition(const Code* a, const Code* b, int k, Format accumulator, uint64_t c) {
  uint64_t x[kMmaMaxK];
  uint64_t y[kMmaMaxK];
  for (int i = 0; i < k; ++i) {
    x[i] = a[i];
    y[i] = b[i];
  }
  return dot(F, k, x, y, accumulator, c);
}

// All of D, eight columns of a row at a time; `store` rounds and writes them.
template <Format F, Format Accumulator, int kSteps, class Code, class Element, class Store>
void mma_rows_of(MmaShape shape, const Code* a, const Code* b, const Element* c, Store&& store) {
  RowsA left;
  decode<F>(a, shape.m * kSteps, left);
  ColumnsB right;
  Decoded<kColumns> in;
  for (int column = 0; column < shape.n; column += kColumns) {
    decode_columns<F>(b + column * kSteps, kSteps, right);
    for (int row = 0; row < shape.m; ++row) {
      const int at = row * shape.n + column;
      for (int j = 0; j < kColumns; ++j) {
        if constexpr (Accumulator == Format::F16) {
          in.value[j] = f16_to_f32(c[at + j]);
        } else {
          in.value[j] = c[at + j];
        }
        in.exponent[j] = exponent_of<Accumulator>(in.value[j]);
      }
      const int first = row * kSteps;
      store(row, column,
            row_sum<kSteps>(left.value + first, left.exponent + first, right, in.value,
                            load<Ints>(in.exponent)));
    }
  }
}

template <Format F, Format Accumulator, class Code, class Element, class Store>
void mma_rows(MmaShape shape, const Code* a, const Code* b, const Element* c, Store&& store) {
  if (shape.k == 16) return mma_rows_of<F, Accumulator, 16>(shape, a, b, c, store);
  if (shape.k == 8) return mma_rows_of<F, Accumulator, 8>(shape, a, b, c, store);
  return mma_rows_of<F, Accumulator, 4>(shape, a, b, c, store);
}

template <Format F, class Code>
void mma_f32(MmaShape shape, const Code* a, const Code* b, const float* c, float* d) {
  mma_rows<F, Format::F32>(shape, a, b, c, [&](int row, int column, const RowSum& sum) {
    const Floats fast = truncated(sum.exact);
    if (sum.all_fast) [[likely]] {
      __builtin_memcpy(d + row * shape.n + column, &fast, sizeof fast);
      return;
    }
    for (int j = 0; j < kColumns; ++j) {
      const int at = row * shape.n + column + j;
      if (is_fast(sum.largest[j])) [[likely]] {
        d[at] = fast[j];
      } else {
        const Code* b_column = b + (column + j) * shape.k;
        const uint64_t r =
            by_definition<F>(a + row * shape.k, b_column, shape.k, Format::F32, bits_of(c[at]));
        d[at] = f32_of(static_cast<uint32_t>(r));
      }
    }
  });
}

// fp8 as f16, the elements in the order in which the two halves take them.
void widen_fp8(Format format, const uint8_t* codes, int rows, int k, uint16_t* out) {
  const int half = k / 2;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < k; ++i) {
      const int part = i / half;
      const int j = i % half;
      const uint8_t code = codes[row * k + j / 2 * 4 + part * 2 + j % 2];
      out[(part * rows + row) * half + j] = format == Format::E4M3 ? e4m3_to_f16(code) : e5m2_to_f16(code);
    }
  }
}

struct Fp8Operands {
  uint16_t a[2 * kMaxRows * kMmaMaxK];
  uint16_t b[2 * kMaxRows * kMmaMaxK];
};

}  // namespace

void mma_f16_f32(MmaShape shape, const uint16_t* a, const uint16_t* b, const float* c, float* d) {
  mma_f32<Format::F16>(shape, a, b, c, d);
}
void mma_bf16_f32(MmaShape shape, const uint16_t* a, const uint16_t* b, const float* c, float* d) {
  mma_f32<Format::BF16>(shape, a, b, c, d);
}
void mma_tf32_f32(MmaShape shape, const uint32_t* a, const uint32_t* b, const float* c, float* d) {
  mma_f32<Format::TF32>(shape, a, b, c, d);
}

void mma_f16_f16(MmaShape shape, const uint16_t* a, const uint16_t* b, const uint16_t* c, uint16_t* d) {
  mma_rows<Format::F16, Format::F16>(shape, a, b, c, [&](int row, int column, const RowSum& sum) {
    for (int j = 0; j < kColumns; ++j) {
      const int at = row * shape.n + column + j;
      if (is_fast(sum.largest[j])) [[likely]] {
        d[at] = f32_to_f16_rn(round_to_f32<Rounding::Odd>(sum.exact[j]));
      } else {
        const uint16_t* b_column = b + (column + j) * shape.k;
        d[at] = static_cast<uint16_t>(
            by_definition<Format::F16>(a + row * shape.k, b_column, shape.k, Format::F16, c[at]));
      }
    }
  });
}

void mma_fp8_f32(MmaShape shape, Format a_format, Format b_format, const uint8_t* a, const uint8_t* b,
                 const float* c, float* d) {
  Fp8Operands wide;
  widen_fp8(a_format, a, shape.m, shape.k, wide.a);
  widen_fp8(b_format, b, shape.n, shape.k, wide.b);
  const MmaShape half{shape.m, shape.n, shape.k / 2};
  float sum[kMaxRows * kMaxRows] = {};
  mma_f16_f32(half, wide.a, wide.b, sum, sum);
  mma_f16_f32(half, wide.a + half.m * half.k, wide.b + half.n * half.k, sum, sum);
  for (int i = 0; i < shape.m * shape.n; ++i) d[i] = add_f32(sum[i], c[i]);
}

void mma_fp8_f16(MmaShape shape, Format a_format, Format b_format, const uint8_t* a, const uint8_t* b,
                 const uint16_t* c, uint16_t* d) {
  Fp8Operands wide;
  widen_fp8(a_format, a, shape.m, shape.k, wide.a);
  widen_fp8(b_format, b, shape.n, shape.k, wide.b);
  const MmaShape half{shape.m, shape.n, shape.k / 2};
  uint16_t sum[kMaxRows * kMaxRows] = {};
  mma_f16_f16(half, wide.a, wide.b, sum, sum);
  mma_f16_f16(half, wide.a + half.m * half.k, wide.b + half.n * half.k, sum, sum);
  for (int i = 0; i < shape.m * shape.n; ++i) d[i] = add_half<F16>(sum[i], c[i]);
}

void mma_f64(MmaShape shape, Rounding rounding, const double* a, const double* b, const double* c,
             double* d) {
  const auto fused = [&](double x, double y, double z) {
    return rounding == Rounding::NearestEven ? std::fma(x, y, z) : fma_f64_directed(rounding, x, y, z);
  };
  for (int row = 0; row < shape.m; ++row) {
    for (int column = 0; column < shape.n; ++column) {
      double sum = c[row * shape.n + column];
      for (int i = 0; i < shape.k; ++i) {
        const double x = a[row * shape.k + i];
        const double y = b[column * shape.k + i];
        const double r = fused(x, y, sum);
        sum = r != r ? nan_f64(x, y, sum) : r;
      }
      d[row * shape.n + column] = sum;
    }
  }
}

void mma_s32(MmaShape shape, bool saturate, const int16_t* a, const int16_t* b, const int32_t* c,
             int32_t* d) {
  for (int row = 0; row < shape.m; ++row) {
    for (int column = 0; column < shape.n; ++column) {
      int32_t products = 0;  // at most 64 * 255 * 255
      for (int i = 0; i < shape.k; ++i) products += a[row * shape.k + i] * b[column * shape.k + i];
      const int at = row * shape.n + column;
      const int64_t sum = static_cast<int64_t>(c[at]) + products;
      d[at] = saturate ? static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX))
                       : static_cast<int32_t>(sum);
    }
  }
}

void mma_b1(MmaShape shape, BitOperation operation, const uint32_t* a, const uint32_t* b, const int32_t* c,
            int32_t* d) {
  const int words = shape.k / 32;
  for (int row = 0; row < shape.m; ++row) {
    for (int column = 0; column < shape.n; ++column) {
      uint32_t count = 0;
      for (int i = 0; i < words; ++i) {
        const uint32_t x = a[row * words + i];
        const uint32_t y = b[column * words + i];
        count += static_cast<uint32_t>(std::popcount(operation == BitOperation::Xor ? x ^ y : x & y));
      }
      const int at = row * shape.n + column;
      d[at] = static_cast<int32_t>(static_cast<uint32_t>(c[at]) + count);
    }
  }
}

}  // namespace assay::numerics
