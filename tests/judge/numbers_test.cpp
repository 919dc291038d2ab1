// Numbers as text: as many digits as it takes to tell them apart.
#include "judge/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "finding/message.h"

namespace assay::judge {
namespace {

using contract::DType;
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(Numbers, HaveTheFewestDigitsThatTheirTypeNeeds) {
  const struct {
    DType dtype;
    double value;
    const char* text;
  } kCases[] = {
      {DType::f32, 16843912, "16843912"},
      {DType::f32, 0.1f, "0.1"},
      {DType::f32, 1.0f / 3, "0.33333334"},
      {DType::f32, -0.00012345679f, "-0.00012345679"},
      {DType::f32, 1e20f, "1e+20"},
      {DType::f32, 3.4028234663852886e38, "3.4028235e+38"},
      {DType::f32, 1e-40f, "1e-40"},
      {DType::f64, 1.0 / 3, "0.3333333333333333"},
      {DType::f64, 0.1, "0.1"},
      {DType::f64, 1e300, "1e+300"},
      {DType::bf16, 0.333984375, "0.334"},
      {DType::bf16, 65536, "65536"},
      {DType::bf16, 16777216, "1.68e+07"},
      {DType::bf16, -2.640625, "-2.64"},
      {DType::f16, 0.333251953125, "0.3333"},
      {DType::e4m3, 0.40625, "0.4"},
      {DType::f32, 0, "0"},
      {DType::f32, -0.0, "-0"},
      {DType::f32, kNan, "NaN"},
      {DType::f32, kInf, "inf"},
      {DType::f32, -kInf, "-inf"},
      {DType::i32, -7, "-7"},
      {DType::i32, 2143289344, "2143289344"},
  };
  for (const auto& c : kCases) EXPECT_EQ(number_text(c.dtype, c.value), c.text) << c.value;
}

TEST(Numbers, IntegersKeepAllTheirBits) {
  EXPECT_EQ(integer_text(DType::i64, 9007199254740993), "9007199254740993");
  EXPECT_EQ(integer_text(DType::u64, -1), "18446744073709551615");
  EXPECT_EQ(integer_text(DType::i64, -1), "-1");
}

TEST(Numbers, APairIsToldApartWithItsErrorInBudgets) {
  const struct {
    Compared pair;
    const char* sentence;
  } kCases[] = {
      {{DType::f32, 16843912, 16843908, {}, {}, 1.25},
       "is 16843912, should be 16843908 (error 4, 3.2 times the budget of 1.25)"},
      {{DType::f32, 1.5, 1.25, {}, {}, 1e-6},
       "is 1.5, should be 1.25 (error 0.25, 250000 times the budget of 1e-06)"},
      // The nearest two bf16 numbers, and what lies between them.
      {{DType::bf16, 0.333984375, 0.33333333333333331, {}, {}, 0.001},
       "is 0.33398, should be 0.333333 (error 0.000651)"},
      {{DType::f32, 0.33333334f, 1.0 / 3, {}, {}, 1e-9},
       "is 0.3333333433, should be 0.3333333333 (error 9.93e-09, 9.9 times the budget of 1e-09)"},
      {{DType::f64, 1 + 0x1p-52, 1, {}, {}, 0x1p-53},
       "is 1.0000000000000002, should be 1 (error 2.22e-16, 2 times the budget of 1.11e-16)"},
      {{DType::f32, 3, 2, {}, {}, 0.0}, "is 3, should be 2 (error 1, where the result must be exact)"},
      {{DType::f32, kNan, 2.5, {}, {}, 0.1}, "is NaN, should be 2.5"},
      {{DType::f32, 0, kInf, {}, {}, 0.1}, "is 0, should be inf"},
      {{DType::f32, 2, 3, {}, {}, {}}, "is 2, should be 3"},
      {{DType::i32, 2143289345, 1, 2143289345, 1, 0.0}, "is 2143289345, should be 1"},
      {{DType::i64, 9007199254740992, 9007199254740992, 9007199254740993, 9007199254740992, 0.0},
       "is 9007199254740993, should be 9007199254740992"},
  };
  for (const auto& c : kCases) EXPECT_EQ(sentence(text_of(c.pair)), c.sentence);
}

// Whatever the pair: what is printed differs, and the difference of both texts is the error.
TEST(Numbers, TheDifferenceOfTheTextsIsTheError) {
  uint64_t state = 1;
  const auto random = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (int i = 0; i < 2000; ++i) {
      const double stored =
          contract::rounded(dtype, std::ldexp(random() + 0.5, static_cast<int>(random() * 24) - 12));
      const double exact = stored * (1 + std::ldexp(random() - 0.5, -static_cast<int>(random() * 40)));
      if (stored == exact) continue;
      const evidence::ComparedText text = text_of({dtype, stored, exact, {}, {}, 1.0});
      const double shown = std::stod(text.stored) - std::stod(text.exact), error = stored - exact;
      EXPECT_NE(text.stored, text.exact);
      EXPECT_NEAR(shown, error, 0.03 * std::abs(error)) << sentence(text);
    }
  }
}

}  // namespace
}  // namespace assay::judge
