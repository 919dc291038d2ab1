// The approximate functions (.approx, .full), with the hardware's bits.
//
// The special-function unit interpolates: the leading bits of the argument
// choose a segment of a table, the rest is x in c0 + c1 * x + c2 * x^2. Its
// squarer drops the partial products of weight below 2^19 (for 17 bits of x),
// and the result is truncated, not rounded. The tables were recovered from
// exhaustive runs on an H200; docs/numerics.md has the details.
//
// The unit itself (namespace sfu) reads subnormals as zero and never writes
// them; the instructions without .ftz scale around it, as the assembler does.
// All of it is free of branches, so that a loop over lanes becomes vector code.
#pragma once

#include "numerics/half.h"

namespace assay::numerics {
namespace sfu {

// Given in units of 2^-17 of the result's last place. Doubles hold all sums exactly. A segment fills a vector of four
// doubles: SIMD code loads whole segments and transposes them, which is several times as fast as gathering.
struct alignas(32) Segment {
  double c0;
  double c1;
  double c2;
  double unused = 0;
  constexpr Segment(int64_t a, int64_t b, int64_t c)
      : c0(static_cast<double>(a) * 0x1p-17),
        c1(static_cast<double>(b) * 0x1p-17),
        c2(static_cast<double>(c) * 0x1p-17) {}
};

extern const Segment kReciprocal[128];      // 1/m for m in [1, 2), above 0.5
extern const Segment kReciprocalRoot[128];  // 1/sqrt(m) for m in [1, 2), then [2, 4), above 0.5
extern const Segment kRoot[128];            // sqrt(m) for the same, above 1
extern const Segment kPower[64];            // 2^f for f in [0, 1), above 1
extern const Segment kLogarithm[64];        // log2(m) for m in [1, 2), last place 2^-23
extern const Segment kSine[64];             // sin(pi/2 f) for f in [0, 1), last place 2^-24
extern const Segment kTanh[51];             // the binades from 2^-8 to 2^2 one after another

// For each of tanh's binades: its first segment, and how many bits choose among its segments.
extern const int32_t kTanhFirst[11];
extern const int32_t kTanhBits[11];

inline constexpr uint32_t kSign = 0x80000000u;
inline constexpr uint32_t kInfinity = 0x7f800000u;
inline constexpr uint32_t kFraction = 0x7fffffu;

// The square of a 17-bit x as the unit makes it, over 2^19: a row for each bit of x that has
// partial products of weight 2^19 or more. (No loop: it would keep the callers' from vectorising.)
template <uint32_t J>
inline uint32_t square_row(uint32_t x) {
  const uint32_t row = ((x & ((1u << J) - 1)) >> (18 - J)) + (1u << (2 * J - 19));
  return row & (0u - ((x >> J) & 1));
}
inline int32_t square(uint32_t x) {
  return static_cast<int32_t>(square_row<10>(x) + square_row<11>(x) + square_row<12>(x) + square_row<13>(x) +
                              square_row<14>(x) + square_row<15>(x) + square_row<16>(x));
}

// A table's value: `segment` and the 17 bits of x below it.
inline double interpolate(const Segment* table, uint32_t segment, uint32_t x) {
  const Segment& s = table[segment];
  return s.c0 + s.c1 * static_cast<double>(static_cast<int32_t>(x)) + s.c2 * static_cast<double>(square(x));
}
inline int32_t stored_exponent(uint32_t bits) {
  return static_cast<int32_t>((bits >> 23) & 0xff);
}

// The float `base` plus `value` codes, times 2^exponent; below the normal numbers is zero.
inline uint32_t assemble(int32_t base, double value, int32_t exponent) {
  const int32_t code = base + static_cast<int32_t>(value) + exponent * (1 << 23);
  return static_cast<uint32_t>(pick(code < 0x00800000, 0, code));
}

// Each function of the unit in three steps: where to look in its table, the look-up, and what becomes of the
// value. A loop over lanes does one step after another, since only the second needs more than arithmetic.
struct Place {
  uint32_t segment;
  uint32_t x;  // 17 bits
};
inline Place place_of(uint32_t argument) {  // of 23 bits: six choose the segment
  return {argument >> 17, argument & 0x1ffffu};
}

struct Rcp {
  static constexpr const Segment* kTable = kReciprocal;
  static Place place(float x) {
    const uint32_t b = flush_f32_bits(bits_of(x));
    // Seven bits choose the segment: the 16 that are left are one bit short of x.
    return {(b & kFraction) >> 16, (b & 0xffffu) << 1};
  }
  static float finish(float x, double value) {
    const uint32_t b = flush_f32_bits(bits_of(x));
    const uint32_t a = b & ~kSign;
    uint32_t r = assemble(0x3f000000, value, 127 - stored_exponent(b));
    r = pick(a == 0, kInfinity, r);
    r = pick(a == kInfinity, 0u, r) | (b & kSign);
    return f32_of(pick(a > kInfinity, kNanF32, r));
  }
};

struct Rsq {
  static constexpr const Segment* kTable = kReciprocalRoot;
  static Place place(float x) {
    const uint32_t b = flush_f32_bits(bits_of(x));
    const auto odd = static_cast<uint32_t>((stored_exponent(b) - 127) & 1);
    return {odd * 64 + ((b & kFraction) >> 17), b & 0x1ffffu};
  }
  static float finish(float x, double value) {
    const uint32_t b = flush_f32_bits(bits_of(x));
    const uint32_t a = b & ~kSign;
    const int32_t e = stored_exponent(b) - 127;
    uint32_t r = assemble(0x3f000000, value, -(e >> 1));
    r = pick((static_cast<uint32_t>(e & 1) | (b & kFraction)) == 0,
             static_cast<uint32_t>(0x3f800000 - (e >> 1) * (1 << 23)), r);  // a power of four
    r = pick(a == kInfinity, 0u, r);
    r = pick(b > kSign, kNanF32, r);  // negative, and not zero
    r = pick(a == 0, kInfinity | (b & kSign), r);
    return f32_of(pick(a > kInfinity, kNanF32, r));
  }
};

struct Sqrt {
  static constexpr const Segment* kTable = kRoot;
  static Place place(float x) { return Rsq::place(x); }
  static float finish(float x, double value) {
    const uint32_t b = flush_f32_bits(bits_of(x));
    const uint32_t a = b & ~kSign;
    uint32_t r = assemble(0x3f800000, value, (stored_exponent(b) - 127) >> 1);
    r = pick(a == kInfinity, kInfinity, r);
    r = pick(b > kSign, kNanF32, r);
    r = pick(a == 0, b, r);
    return f32_of(pick(a > kInfinity, kNanF32, r));
  }
};

struct Lg2 {
  static constexpr const Segment* kTable = kLogarithm;
  static Place place(float x) { return place_of(flush_f32_bits(bits_of(x)) & kFraction); }
  static float finish(float x, double logarithm) {
    const uint32_t b = flush_f32_bits(bits_of(x));
    const uint32_t a = b & ~kSign;
    // The adder's last place is 2^-36; a negative sum is complemented, not negated.
    const double whole = static_cast<double>(stored_exponent(b) - 127) * 0x1p23;
    const double sum = std::floor((logarithm + whole) * 0x1p13);
    const double magnitude = std::fabs(sum + 0.5) - 0.5;
    const float value = round_to_f32<Rounding::TowardZero>(magnitude * 0x1p-36);
    uint32_t r = bits_of(value) | (bits_of(static_cast<float>(sum)) & kSign);
    r = pick(b == 0x3f800000u, 0u, r);
    r = pick(a == kInfinity, kInfinity, r);
    r = pick(b > kSign, kNanF32, r);
    r = pick(a == 0, kInfinity | kSign, r);
    return f32_of(pick(a > kInfinity, kNanF32, r));
  }
};

struct Ex2 {
  static constexpr const Segment* kTable = kPower;
  // The argument in units of 2^-23, rounded down.
  static int32_t fixed(float x) {
    const float low = pick(x > -160.0f, x, -160.0f);  // NaN becomes this, too
    const float clamped = pick(low < 128.0f, low, 128.0f);
    const auto magnitude = static_cast<int32_t>(std::fabs(clamped) * 8388608.0f);  // cut off
    const bool whole = (magnitude & static_cast<int32_t>(kFraction)) == 0;
    const int32_t negated = pick(whole, -magnitude, ~magnitude);
    return pick(clamped < 0, negated, magnitude);
  }
  static Place place(float x) { return place_of(static_cast<uint32_t>(fixed(x)) & kFraction); }
  static float finish(float x, double value) {
    uint32_t r = assemble(0x3f800000, value, fixed(x) >> 23);
    r = pick(x >= 128.0f, kInfinity, r);
    return f32_of(pick(x != x, kNanF32, r));
  }
};

// |r| in units of 2^-25, modulo a revolution.
inline uint32_t phase(float r) {
  const double a = std::fabs(static_cast<double>(r));
  return static_cast<uint32_t>(static_cast<int32_t>((a - std::floor(a)) * 0x1p25));
}

// sin of 2 pi * k / 2^25 for k below 2^25: a quarter of a wave, mirrored and negated.
struct Wave {
  static Place place(uint32_t k) {
    const uint32_t f = k & kFraction;
    return place_of(pick((k & 0x800000u) != 0, ~f & kFraction, f));
  }
  static uint32_t finish(uint32_t k, double value) {
    const float wave = round_to_f32<Rounding::TowardZero>(value * 0x1p-24);
    const bool top = ((k & 0x800000u) != 0) & ((k & kFraction) == 0);
    return bits_of(pick(top, 1.0f, wave)) | pick((k & 0x1000000u) != 0, kSign, 0u);
  }
};

// The bits of a revolution's argument, with zero for what has none.
inline uint32_t finite_bits(float r) {
  const uint32_t b = flush_f32_bits(bits_of(r));
  return pick((b & kInfinity) != kInfinity, b, 0u);
}
inline bool is_finite(float r) {
  return (bits_of(r) & kInfinity) != kInfinity;
}

struct Sin {
  static constexpr const Segment* kTable = kSine;
  static uint32_t at(float r) { return phase(f32_of(finite_bits(r))); }
  static Place place(float r) { return Wave::place(at(r)); }
  static float finish(float r, double value) {
    const uint32_t s = Wave::finish(at(r), value) ^ (flush_f32_bits(bits_of(r)) & kSign);
    return f32_of(pick(is_finite(r), s, kNanF32));
  }
};

struct Cos {
  static constexpr const Segment* kTable = kSine;
  static uint32_t at(float r) { return (phase(f32_of(finite_bits(r))) + 0x800000u) & 0x1ffffffu; }
  static Place place(float r) { return Wave::place(at(r)); }
  static float finish(float r, double value) {
    return f32_of(pick(is_finite(r), Wave::finish(at(r), value), kNanF32));
  }
};

struct Tanh {
  static constexpr const Segment* kTable = kTanh;
  static uint32_t inside(uint32_t a) {  // from 2^-8 to 8, else 1
    return pick((a >= 0x3b800000u) & (a < 0x41000000u), a, 0x3f800000u);
  }
  static Place place(float x) {
    const uint32_t v = inside(bits_of(x) & ~kSign);
    const int32_t binade = stored_exponent(v) - 127 + 8;
    const uint32_t argument = (v & kFraction) >> (6 - kTanhBits[binade]);
    return {static_cast<uint32_t>(kTanhFirst[binade]) + (argument >> 17), argument & 0x1ffffu};
  }
  static float finish(float x, double value) {
    const uint32_t b = bits_of(x);
    const uint32_t a = b & ~kSign;
    const int32_t e = stored_exponent(inside(a)) - 127;
    const int32_t unit = pick(e < -1, e, -1) - 23;
    const double scale = f64_of(static_cast<uint64_t>(unit + 1023) << 52);
    const uint32_t wave = bits_of(round_to_f32<Rounding::TowardZero>(value * scale));
    uint32_t r = pick(a >= 0x41000000u, 0x3f800000u, wave);
    r = pick(a < 0x3b800000u, a, r) | (b & kSign);
    return f32_of(pick(a > kInfinity, kNanF32, r));
  }
};

template <class Function>
inline float evaluate(float x) {
  const Place at = Function::place(x);
  return Function::finish(x, interpolate(Function::kTable, at.segment, at.x));
}
inline float rcp(float x) {
  return evaluate<Rcp>(x);
}
inline float rsq(float x) {
  return evaluate<Rsq>(x);
}
inline float ex2(float x) {
  return evaluate<Ex2>(x);
}
inline float tanh(float x) {
  return evaluate<Tanh>(x);
}

inline bool is_small(float x) {
  return std::fabs(x) < 0x1p-126f;
}

}  // namespace sfu

// The instructions: what goes into the unit (`before`), which of its functions, and what comes out (`after`).
struct Ex2Approx {
  using Function = sfu::Ex2;
  static bool is_halved(float x, bool ftz) { return !ftz & (x < -126.0f); }
  static float before(float x, bool ftz) { return pick(is_halved(x, ftz), x * 0.5f, x); }
  static float after(float x, float r, bool ftz) { return pick(is_halved(x, ftz), r * r, r); }
};

struct Lg2Approx {
  using Function = sfu::Lg2;
  static bool is_scaled(float x, bool ftz) { return !ftz & sfu::is_small(x); }
  static float before(float x, bool ftz) { return x * pick(is_scaled(x, ftz), 0x1p24f, 1.0f); }
  static float after(float x, float r, bool ftz) {
    return canonical(r - pick(is_scaled(x, ftz), 24.0f, 0.0f));
  }
};

// The argument in revolutions is cut off, and flushed by the unit.
struct SinApprox {
  using Function = sfu::Sin;
  static float before(float x, bool) { return mul_f32<Rounding::TowardZero>(x, f32_of(0x3e22f983u)); }
  static float after(float, float r, bool) { return r; }
};
struct CosApprox : SinApprox {
  using Function = sfu::Cos;
};

struct RcpApprox {
  using Function = sfu::Rcp;
  static float scale(float x, bool ftz) {
    const float small = pick(sfu::is_small(x), 0x1p24f, 1.0f);
    return pick(ftz, 1.0f, pick(std::fabs(x) > 0x1p126f, 0.25f, small));
  }
  static float before(float x, bool ftz) { return x * scale(x, ftz); }
  static float after(float x, float r, bool ftz) { return canonical(scale(x, ftz) * r); }
};

struct RsqrtApprox {
  using Function = sfu::Rsq;
  static bool is_scaled(float x, bool ftz) { return !ftz & sfu::is_small(x); }
  static float before(float x, bool ftz) { return x * pick(is_scaled(x, ftz), 0x1p24f, 1.0f); }
  static float after(float x, float r, bool ftz) {
    return canonical(r * pick(is_scaled(x, ftz), 0x1p12f, 1.0f));
  }
};

struct SqrtApprox {
  using Function = sfu::Sqrt;
  static bool is_scaled(float x, bool ftz) { return !ftz & sfu::is_small(x); }
  static float before(float x, bool ftz) { return x * pick(is_scaled(x, ftz), 0x1p24f, 1.0f); }
  static float after(float x, float r, bool ftz) {
    return canonical(r * pick(is_scaled(x, ftz), 0x1p-12f, 1.0f));
  }
};

struct TanhApprox {
  using Function = sfu::Tanh;
  static float before(float x, bool) { return x; }
  static float after(float, float r, bool) { return r; }
};

template <class Instruction>
inline float approx(float x, bool ftz) {
  return Instruction::after(x, sfu::evaluate<typename Instruction::Function>(Instruction::before(x, ftz)),
                            ftz);
}
inline float ex2_approx(float x, bool ftz) {
  return approx<Ex2Approx>(x, ftz);
}
inline float lg2_approx(float x, bool ftz) {
  return approx<Lg2Approx>(x, ftz);
}
inline float sin_approx(float x, bool ftz) {
  return approx<SinApprox>(x, ftz);
}
inline float cos_approx(float x, bool ftz) {
  return approx<CosApprox>(x, ftz);
}
inline float rcp_approx(float x, bool ftz) {
  return approx<RcpApprox>(x, ftz);
}
inline float rsqrt_approx(float x, bool ftz) {
  return approx<RsqrtApprox>(x, ftz);
}
inline float sqrt_approx(float x, bool ftz) {
  return approx<SqrtApprox>(x, ftz);
}
inline float tanh_approx(float x) {
  return approx<TanhApprox>(x, false);
}

// a / b as a times the reciprocal, both scaled first where b needs it.
struct DivApprox {
  static float scale(float b, bool ftz) { return pick(!ftz & sfu::is_small(b), 0x1p24f, 1.0f); }
};
struct DivFull {
  static float scale(float b, bool ftz) {
    const float small = pick(!ftz & sfu::is_small(b), 0x1p24f, 1.0f);
    return pick(std::fabs(b) > 0x1p126f, 0.25f, small);
  }
};
// `reciprocal`: the unit's, of b * scale.
inline float scaled_quotient(float a, float scale, float reciprocal, bool ftz) {
  const float x = ftz ? mul_f32<Rounding::NearestEven, true>(a, scale) : a * scale;
  return ftz ? mul_f32<Rounding::NearestEven, true>(x, reciprocal) : mul_f32(x, reciprocal);
}
inline float div_approx(float a, float b, bool ftz) {
  const float scale = DivApprox::scale(b, ftz);
  return scaled_quotient(a, scale, sfu::rcp(b * scale), ftz);
}
inline float div_full(float a, float b, bool ftz) {
  const float scale = DivFull::scale(b, ftz);
  return scaled_quotient(a, scale, sfu::rcp(b * scale), ftz);
}

// ex2.approx.f16 and .ftz.bf16, tanh.approx for both: the f32 result, cut off.
inline uint16_t ex2_approx_f16(uint16_t x, bool ftz) {
  const float r = sfu::ex2(f16_to_f32(ftz ? flush_code<F16>(x) : x));
  const uint16_t narrow = pick<uint16_t>(r >= 65536.0f, F16::kInf, f32_to_f16_rz(r));
  return ftz ? flush_code<F16>(narrow) : narrow;
}
inline uint16_t ex2_approx_bf16(uint16_t x) {
  return f32_to_bf16_rz(sfu::ex2(bf16_to_f32(x)));
}
inline uint16_t tanh_approx_f16(uint16_t x) {
  return f32_to_f16_rz(sfu::tanh(f16_to_f32(x)));
}
inline uint16_t tanh_approx_bf16(uint16_t x) {
  return f32_to_bf16_rz(sfu::tanh(bf16_to_f32(x)));
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the high word alone, into the high word.
double rcp_approx_f64(double x);
double rsqrt_approx_f64(double x);
// rsqrt.approx.f64: the above and one step of Newton's method.
double rsqrt_approx_f64_full(double x);

}  // namespace assay::numerics
