// The formats against independent authorities: the CPU's own rounding where it
// has the format, and a search over all codes of the small ones where not.
#include "numerics/formats.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <cfenv>
#include <random>
#include <vector>

namespace assay::numerics {
namespace {

constexpr Format kSmall[] = {Format::F16,  Format::BF16, Format::E4M3, Format::E5M2,
                             Format::E2M3, Format::E3M2, Format::E2M1};
constexpr Rounding kModes[] = {Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up};

struct Coded {
  double value;
  uint64_t code;
};

// Every finite code with its value, ascending; +0 only.
std::vector<Coded> ladder(Format format) {
  const FormatInfo& f = info(format);
  std::vector<Coded> all;
  for (uint64_t code = 0; code < uint64_t{1} << f.bits; ++code) {
    const Class c = classify(format, code);
    if (c == Class::NaN || c == Class::Infinity) continue;
    if (c == Class::Zero && sign_of(format, code)) continue;
    all.push_back({to_double(format, code), code});
  }
  std::sort(all.begin(), all.end(), [](const Coded& a, const Coded& b) { return a.value < b.value; });
  return all;
}

// Round by definition: find the two neighbours, take the one the mode names.
double round_by_search(const std::vector<Coded>& all, double x, Rounding mode) {
  const auto above =
      std::lower_bound(all.begin(), all.end(), x, [](const Coded& a, double v) { return a.value < v; });
  if (above->value == x) return x;
  const auto below = above - 1;
  switch (mode) {
    case Rounding::Down:
      return below->value;
    case Rounding::Up:
      return above->value;
    case Rounding::TowardZero:
      return x > 0 ? below->value : above->value;
    default:
      break;
  }
  const double up = above->value - x;
  const double down = x - below->value;
  if (up != down) return up < down ? above->value : below->value;
  return (above->code & 1) == 0 ? above->value : below->value;
}

TEST(Formats, PublishedConstants) {
  EXPECT_EQ(max_finite(Format::F16), 65504.0);
  EXPECT_EQ(max_finite(Format::BF16), 0x1.fep127);
  EXPECT_EQ(max_finite(Format::E4M3), 448.0);
  EXPECT_EQ(max_finite(Format::E5M2), 57344.0);
  EXPECT_EQ(max_finite(Format::E2M1), 6.0);
  EXPECT_EQ(max_finite(Format::E2M3), 7.5);
  EXPECT_EQ(max_finite(Format::E3M2), 28.0);
  EXPECT_EQ(max_finite(Format::F32), 0x1.fffffep127);
  EXPECT_EQ(max_finite(Format::TF32), 0x1.ffcp127);
  EXPECT_EQ(max_finite(Format::UE8M0), 0x1p127);
  EXPECT_EQ(min_subnormal(Format::F16), 0x1p-24);
  EXPECT_EQ(min_subnormal(Format::E4M3), 0x1p-9);
  EXPECT_EQ(min_normal(Format::BF16), 0x1p-126);
  EXPECT_EQ(unit_roundoff(Format::BF16), 0x1p-8);
  EXPECT_EQ(ulp(Format::BF16, 1.0), 0x1p-7);
  EXPECT_EQ(ulp(Format::BF16, -1.99), 0x1p-7);
  EXPECT_EQ(ulp(Format::F16, 0.0), 0x1p-24);
  Format found = Format::F64;
  EXPECT_TRUE(format_named("e4m3", found));
  EXPECT_EQ(found, Format::E4M3);
  EXPECT_FALSE(format_named("e4m4", found));
}

TEST(Formats, EveryCodeComesBack) {
  for (const Format format : kSmall) {
    for (uint64_t code = 0; code < uint64_t{1} << info(format).bits; ++code) {
      const uint64_t back = from_double(format, to_double(format, code));
      const uint64_t expected = is_nan(format, code) ? info(format).canonical_nan : code;
      ASSERT_EQ(back, expected) << info(format).name << " code " << code;
    }
  }
  for (uint64_t code = 0; code < 255; ++code) {
    ASSERT_EQ(from_double(Format::UE8M0, to_double(Format::UE8M0, code)), code);
  }
}

TEST(Formats, NeighboursAreTheLadder) {
  for (const Format format : kSmall) {
    const std::vector<Coded> all = ladder(format);
    for (size_t i = 1; i < all.size(); ++i) {
      ASSERT_EQ(to_double(format, next_up(format, all[i - 1].code)), all[i].value);
      ASSERT_EQ(to_double(format, next_down(format, all[i].code)), all[i - 1].value);
    }
  }
}

TEST(Formats, RoundsAsTheDefinitionSays) {
  std::mt19937_64 random(1);
  for (const Format format : kSmall) {
    const std::vector<Coded> all = ladder(format);
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const double low = all[i].value;
      const double high = all[i + 1].value;
      const double middle = low + (high - low) / 2;
      const double inside =
          low + (high - low) * (0.01 + 0.98 * static_cast<double>(random() >> 11) * 0x1p-53);
      for (const double x :
           {low, middle, std::nextafter(middle, high), std::nextafter(middle, low), inside}) {
        for (const Rounding mode : kModes) {
          const uint64_t code = from_double(format, x, mode);
          ASSERT_EQ(to_double(format, code), round_by_search(all, x, mode))
              << info(format).name << ' ' << x << " mode " << static_cast<int>(mode);
        }
      }
    }
  }
}

TEST(Formats, FloatAsTheCpuRounds) {
  const int cpu_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::mt19937_64 random(2);
  for (int m = 0; m < 4; ++m) {
    for (int i = 0; i < 400000; ++i) {
      // Exponents around all of float's edges, with long runs of zeros for ties.
      const auto exponent = static_cast<uint64_t>(1023 - 160 + static_cast<int>(random() % 300));
      uint64_t fraction = random() & ((uint64_t{1} << 52) - 1);
      if (i % 3 == 0) fraction &= ~((uint64_t{1} << (random() % 52)) - 1);
      const double x = f64_of((random() & (uint64_t{1} << 63)) | exponent << 52 | fraction);
      std::fesetround(cpu_modes[m]);
      volatile double in = x;
      volatile float out = static_cast<float>(in);
      std::fesetround(FE_TONEAREST);
      ASSERT_EQ(from_double(Format::F32, x, kModes[m]), bits_of(static_cast<float>(out)))
          << x << " mode " << m;
    }
  }
}

TEST(Formats, HalfAsTheCpuConverts) {
  std::mt19937 random(3);
  for (int i = 0; i < 1 << 20; ++i) {
    const uint32_t exponent = 127 - 30 + random() % 50;
    uint32_t fraction = random() & 0x7fffff;
    if (i % 3 == 0) fraction &= ~((1u << (random() % 23)) - 1);
    const float x = f32_of((random() & 0x80000000u) | exponent << 23 | fraction);
    ASSERT_EQ(f32_to_f16_rn(x), _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
    ASSERT_EQ(f32_to_f16_rz(x), _cvtss_sh(x, _MM_FROUND_TO_ZERO));
    ASSERT_EQ(from_double(Format::F16, x, Rounding::Down), _cvtss_sh(x, _MM_FROUND_TO_NEG_INF));
    ASSERT_EQ(from_double(Format::F16, x, Rounding::Up), _cvtss_sh(x, _MM_FROUND_TO_POS_INF));
  }
}

TEST(Formats, SaturationAndOverflow) {
  EXPECT_EQ(from_double(Format::E4M3, 1e9, Rounding::NearestEven, Saturation::Finite), 0x7eu);
  EXPECT_EQ(from_double(Format::E4M3, -HUGE_VAL, Rounding::NearestEven, Saturation::Finite), 0xfeu);
  EXPECT_EQ(from_double(Format::E4M3, 480.0), 0x7fu);
  EXPECT_EQ(from_double(Format::E5M2, 1e9), 0x7cu);
  EXPECT_EQ(from_double(Format::E5M2, 1e9, Rounding::TowardZero), 0x7bu);
  EXPECT_EQ(from_double(Format::F16, 65519.9), 0x7bffu);
  EXPECT_EQ(from_double(Format::F16, 65520.0), 0x7c00u);
  EXPECT_EQ(from_double(Format::F32, 1e300, Rounding::Down), 0x7f7fffffu);
  EXPECT_EQ(from_double(Format::F32, -1e300, Rounding::Down), 0xff800000u);
  EXPECT_EQ(from_double(Format::F32, 1e-300, Rounding::Up), 1u);
  EXPECT_EQ(from_double(Format::F32, -1e-300), 0x80000000u);
  EXPECT_EQ(from_double(Format::E2M1, NAN), 0x7u);
}

// The vector-friendly helpers, over whole code spaces and around every tie.
TEST(Lanes, DecodeEveryCode) {
  for (uint32_t c = 0; c < 0x10000; ++c) {
    const auto code = static_cast<uint16_t>(c);
    const double half = to_double(Format::F16, code);
    const double brain = to_double(Format::BF16, code);
    ASSERT_EQ(bits_of(f16_to_f32(code)), std::isnan(half) ? kNanF32 : bits_of(static_cast<float>(half)));
    ASSERT_EQ(bits_of(bf16_to_f32(code)), std::isnan(brain) ? c << 16 : bits_of(static_cast<float>(brain)));
  }
  for (uint32_t c = 0; c < 0x100; ++c) {
    const auto code = static_cast<uint8_t>(c);
    const double e4 = to_double(Format::E4M3, code);
    const double e5 = to_double(Format::E5M2, code);
    ASSERT_EQ(bits_of(e4m3_to_f32(code)), std::isnan(e4) ? kNanF32 : bits_of(static_cast<float>(e4)));
    ASSERT_EQ(bits_of(e5m2_to_f32(code)), std::isnan(e5) ? kNanF32 : bits_of(static_cast<float>(e5)));
    ASSERT_EQ(e4m3_to_f16(code), from_double(Format::F16, e4));
    ASSERT_EQ(e5m2_to_f16(code), from_double(Format::F16, e5));
  }
}

void check_encodings(float x) {
  const double d = x;
  ASSERT_EQ(f32_to_bf16_rn(x), from_double(Format::BF16, d)) << x;
  ASSERT_EQ(f32_to_bf16_rz(x), from_double(Format::BF16, d, Rounding::TowardZero)) << x;
  ASSERT_EQ(f32_to_f16_rn(x), from_double(Format::F16, d)) << x;
  ASSERT_EQ(f32_to_f16_rz(x), from_double(Format::F16, d, Rounding::TowardZero)) << x;
  const auto finite = Saturation::Finite;
  ASSERT_EQ(f32_to_e4m3_satfinite(x), from_double(Format::E4M3, d, Rounding::NearestEven, finite)) << x;
  ASSERT_EQ(f32_to_e5m2_satfinite(x), from_double(Format::E5M2, d, Rounding::NearestEven, finite)) << x;
  ASSERT_EQ(f32_to_tf32_rn(x), from_double(Format::TF32, d)) << x;
  ASSERT_EQ(f32_to_tf32_rz(x), from_double(Format::TF32, d, Rounding::TowardZero)) << x;
  if (!(x == x)) return;  // rna truncates NaNs
  ASSERT_EQ(f32_to_tf32_rna(x), from_double(Format::TF32, d, Rounding::NearestAway)) << x;
}

TEST(Lanes, EncodeAroundEveryTie) {
  // All signs, exponents and leading fraction bits, with tails that make exact
  // values, ties, and their neighbours in each target format.
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low :
         {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      check_encodings(f32_of(high << 16 | low));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Lanes, EncodeRandomBits) {
  std::mt19937 random(4);
  for (int i = 0; i < 1 << 20; ++i) {
    check_encodings(f32_of(static_cast<uint32_t>(random())));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace assay::numerics
