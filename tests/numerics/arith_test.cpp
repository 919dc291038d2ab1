// f32 and f64 in every rounding mode against the CPU's own modes; f16 and bf16
// against exact integer arithmetic.
#include "numerics/arith.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <random>
#include <vector>

#include "numerics/half.h"

namespace assay::numerics {
namespace {

// Bits that matter: near all edges, with short and long fractions.
class Operands {
 public:
  explicit Operands(uint64_t seed) : random_(seed) {}

  float f32() {
    const uint64_t r = random_();
    switch (r % 8) {
      case 0:
        return f32_of(kEdges[(r >> 8) % std::size(kEdges)] ^ static_cast<uint32_t>(r >> 32 & 0x80000000u));
      case 1:
        return f32_of(static_cast<uint32_t>(r >> 32));
      case 2:  // few significant bits: ties and exact results
        return f32_of(static_cast<uint32_t>(r >> 32) & (0xffffffffu << (r >> 8 & 31)));
      default:  // close to each other: cancellation
        return f32_of(static_cast<uint32_t>((r >> 32 & 0x80ffffffu) + 0x3f000000u));
    }
  }
  double f64() {
    const uint64_t r = random_();
    const uint64_t s = random_();
    switch (r % 8) {
      case 0:
        return f64_of(kEdges64[(r >> 8) % std::size(kEdges64)] ^ (s & uint64_t{1} << 63));
      case 1:
        return f64_of(s);
      case 2:
        return f64_of(s & (~uint64_t{0} << (r >> 8 & 63)));
      case 3:  // around the subnormals
        return f64_of((s & 0x800fffffffffffffu) | (r >> 8 & 0x3f) << 52);
      default:
        return f64_of((s & 0x801fffffffffffffu) + 0x3fe0000000000000u);
    }
  }
  uint16_t u16() { return static_cast<uint16_t>(random_()); }

 private:
  static constexpr uint32_t kEdges[] = {0,           1,           0x007fffffu, 0x00800000u, 0x00800001u,
                                        0x00ffffffu, 0x3f800000,  0x3f7fffff,  0x3f800001u, 0x7f7fffffu,
                                        0x7f7ffffeu, 0x7f800000u, 0x34000000,  0x33800000,  0x4b800000u,
                                        0x20000000u, 0x1f800000u, 0x7e800000u};
  static constexpr uint64_t kEdges64[] = {0,
                                          1,
                                          0x000fffffffffffffu,
                                          0x0010000000000000u,
                                          0x3ff0000000000000u,
                                          0x3fefffffffffffffu,
                                          0x7fefffffffffffffu,
                                          0x7ff0000000000000u,
                                          0x3ca0000000000000u,
                                          0x1ff0000000000000u,
                                          0x0360000000000000u};
  std::mt19937_64 random_;
};

template <class Function>
auto in_mode(int cpu_mode, Function&& f) {
  std::fesetround(cpu_mode);
  auto r = f();
  std::fesetround(FE_TONEAREST);
  return r;
}

template <Rounding R>
constexpr int kCpuMode = R == Rounding::NearestEven  ? FE_TONEAREST
                         : R == Rounding::TowardZero ? FE_TOWARDZERO
                         : R == Rounding::Down       ? FE_DOWNWARD
                                                     : FE_UPWARD;

template <Rounding R>
void check_f32() {
  Operands operands(10 + static_cast<uint64_t>(R));
  constexpr int kMode = kCpuMode<R>;
  for (int i = 0; i < 1000000; ++i) {
    volatile float a = operands.f32();
    volatile float b = operands.f32();
    volatile float c = operands.f32();
    if (a != a || b != b || c != c) continue;
    const auto same = [](float ours, float cpu) { return bits_of(ours) == bits_of(canonical(cpu)); };
    // Each expected value passes through a volatile so that it is computed inside the mode.
    const float sum = in_mode(kMode, [&] {
      volatile float r = a + b;
      return float{r};
    });
    const float product = in_mode(kMode, [&] {
      volatile float r = a * b;
      return float{r};
    });
    const float fused = in_mode(kMode, [&] {
      volatile float r = std::fma(float{a}, float{b}, float{c});
      return float{r};
    });
    const float quotient = in_mode(kMode, [&] {
      volatile float r = a / b;
      return float{r};
    });
    const float root = in_mode(kMode, [&] {
      volatile float r = std::sqrt(float{a});
      return float{r};
    });
    ASSERT_TRUE(same(add_f32<R>(a, b), sum)) << std::hexfloat << a << ' ' << b << ' ' << sum;
    ASSERT_TRUE(same(mul_f32<R>(a, b), product)) << std::hexfloat << a << ' ' << b;
    ASSERT_TRUE(same(fma_f32<R>(a, b, c), fused)) << std::hexfloat << a << ' ' << b << ' ' << c;
    ASSERT_TRUE(same(div_f32<R>(a, b), quotient)) << std::hexfloat << a << ' ' << b;
    ASSERT_TRUE(same(sqrt_f32<R>(a), root)) << std::hexfloat << a;
  }
}

template <Rounding R>
void check_f64() {
  Operands operands(20 + static_cast<uint64_t>(R));
  constexpr int kMode = kCpuMode<R>;
  for (int i = 0; i < 400000; ++i) {
    volatile double a = operands.f64();
    volatile double b = operands.f64();
    volatile double c = operands.f64();
    if (a != a || b != b || c != c) continue;
    const auto same = [](double ours, double cpu) {
      return std::isnan(cpu) ? std::isnan(ours) : bits_of(ours) == bits_of(cpu);
    };
    const double sum = in_mode(kMode, [&] {
      volatile double r = a + b;
      return double{r};
    });
    const double product = in_mode(kMode, [&] {
      volatile double r = a * b;
      return double{r};
    });
    const double fused = in_mode(kMode, [&] {
      volatile double r = std::fma(double{a}, double{b}, double{c});
      return double{r};
    });
    const double quotient = in_mode(kMode, [&] {
      volatile double r = a / b;
      return double{r};
    });
    const double root = in_mode(kMode, [&] {
      volatile double r = std::sqrt(double{a});
      return double{r};
    });
    ASSERT_TRUE(same(add_f64<R>(a, b), sum)) << std::hexfloat << a << ' ' << b << ' ' << sum;
    ASSERT_TRUE(same(mul_f64<R>(a, b), product)) << std::hexfloat << a << ' ' << b;
    ASSERT_TRUE(same(fma_f64<R>(a, b, c), fused)) << std::hexfloat << a << ' ' << b << ' ' << c;
    ASSERT_TRUE(same(div_f64<R>(a, b), quotient)) << std::hexfloat << a << ' ' << b;
    ASSERT_TRUE(same(sqrt_f64<R>(a), root)) << std::hexfloat << a;
  }
}

TEST(Arith, F32RoundsAsTheCpuDoes) {
  check_f32<Rounding::NearestEven>();
  check_f32<Rounding::TowardZero>();
  check_f32<Rounding::Down>();
  check_f32<Rounding::Up>();
}

TEST(Arith, F64RoundsAsTheCpuDoes) {
  check_f64<Rounding::NearestEven>();
  check_f64<Rounding::TowardZero>();
  check_f64<Rounding::Down>();
  check_f64<Rounding::Up>();
}

template <class H>
void check_half(Format format) {
  Operands operands(30);
  for (int i = 0; i < 3000000; ++i) {
    uint16_t a = operands.u16();
    uint16_t b = operands.u16();
    uint16_t c = operands.u16();
    if (i % 4 == 1) c = static_cast<uint16_t>((c & 0x8000u) | (c & 0x3));  // a subnormal that breaks ties
    if (i % 4 == 2) {                                                      // short significands: ties
      a &= 0xffe0u;
      b &= 0xffe0u;
    }
    const double x = to_double(format, a);
    const double y = to_double(format, b);
    const double z = to_double(format, c);
    ASSERT_EQ(add_half<H>(a, b), from_double(format, x + y)) << a << ' ' << b;
    ASSERT_EQ(mul_half<H>(a, b), from_double(format, x * y)) << a << ' ' << b;
    const double fused = fma_f64_directed(Rounding::Odd, x, y, z);
    ASSERT_EQ(fma_half<H>(a, b, c), from_double(format, fused)) << std::hexfloat << x << ' ' << y << ' ' << z;
  }
}

TEST(Half, F16RoundsOnce) {
  check_half<F16>(Format::F16);
}
TEST(Half, BF16RoundsOnce) {
  check_half<BF16>(Format::BF16);
}

TEST(Half, AddOverAllPairsOfSomeExponents) {
  // Every f16 against operands whose sums tie, cancel or overflow.
  for (uint32_t a = 0; a < 0x10000; ++a) {
    for (const uint16_t b : {uint16_t{1}, uint16_t{0x8001}, uint16_t{0x0400}, uint16_t{0x1000},
                             uint16_t{0x7bff}, uint16_t{0xbc01}, uint16_t{0x4c10}, uint16_t{0x7c00}}) {
      const double exact = to_double(Format::F16, a) + to_double(Format::F16, b);
      ASSERT_EQ(add_half<F16>(static_cast<uint16_t>(a), b), from_double(Format::F16, exact));
    }
  }
}

TEST(Arith, SaturationAndFlushing) {
  EXPECT_EQ((bits_of(add_f32<Rounding::NearestEven, false, true>(NAN, 1))), 0u);
  EXPECT_EQ((bits_of(add_f32<Rounding::NearestEven, false, true>(-0.0f, -0.0f))), 0u);
  EXPECT_EQ((add_f32<Rounding::NearestEven, false, true>(0.75f, 0.75f)), 1.0f);
  EXPECT_EQ((bits_of(mul_f32<Rounding::NearestEven, true>(-0x1p-126f, 0.5f))), 0x80000000u);
  EXPECT_EQ((bits_of(fma_f32<Rounding::NearestEven, true>(0x1p-127f, 0x1p127f, -0.0f))), 0u);
  EXPECT_EQ(bits_of(add_f32(f32_of(0xffc12345u), 1.0f)), kNanF32);
  constexpr HalfMode kSat{false, true, false};
  constexpr HalfMode kRelu{false, false, true};
  EXPECT_EQ((add_half<F16, kSat>(0x7e00u, 0)), 0u);
  EXPECT_EQ((add_half<F16, kSat>(0x4000u, 0x4000u)), 0x3c00u);
  EXPECT_EQ((add_half<BF16, kRelu>(0xbf80u, 0)), 0u);
  EXPECT_EQ((add_half<BF16, kRelu>(0x7fc0u, 0)), kNanBF16);
}

TEST(Arith, MinMaxOfZerosAndNans) {
  const float nan = f32_of(0x7fc00001u);
  EXPECT_EQ(bits_of(minmax_f32<false>(0.0f, -0.0f)), 0x80000000u);
  EXPECT_EQ(bits_of(minmax_f32<true>(-0.0f, 0.0f)), 0u);
  EXPECT_EQ(minmax_f32<true>(nan, 3.0f), 3.0f);
  EXPECT_EQ(minmax_f32<false>(3.0f, nan), 3.0f);
  EXPECT_EQ(bits_of(minmax_f32<false>(nan, nan)), kNanF32);
  EXPECT_EQ((bits_of(minmax_f32<true, false, true>(nan, 3.0f))), kNanF32);
  EXPECT_EQ((minmax_f32<true, false, false, true>(-4.0f, 3.0f)), -4.0f);
  EXPECT_EQ((minmax_f32<false, false, false, true>(-4.0f, -3.0f)), 3.0f);
}

}  // namespace
}  // namespace assay::numerics
