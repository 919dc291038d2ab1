#include "judge/repetition.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/random.h"
#include "implementations.h"
#include "trial/shapes.h"
#include "trial/trial.h"

namespace assay::judge::testing {
namespace {

using ::testing::Optional;
using ::testing::StartsWith;

constexpr int64_t kRows = 500, kColumns = 100;

// Row sums of x, in f32, bf16 or as integers.
class Repeated {
 public:
  explicit Repeated(const std::string& stored, const std::string& given = "f32")
      : contract_(*contract::parse(contract_of(
            "x,y,M,N", "M = { min = 1, max = 500 }\nN = { min = 1, max = 100 }",
            {{"x", given, "M,N", ""}, {"y", stored, "M", "role = \"out\""}}, "y[i] = sum[k](x[i, k])"))) {
    trial_.shape = {{"M", kRows}, {"N", kColumns}};
    bindings_ = *trial::make_inputs(contract_, trial_);
  }

  using Element = std::function<double(const Floats& row, int64_t i)>;
  Outputs run(const Element& element) const {
    const Call call{contract_, bindings_};
    const std::vector<float> x = call.in("x");
    Tensor y = call.out("y");
    for (int64_t i = 0; i < kRows; ++i) {
      const auto row = x.begin() + i * kColumns;
      const double value = element(Floats(row, row + kColumns), i);
      if (contract::is_float(y.dtype)) {
        y.store(i, value);
      } else {
        y.store_int(i, static_cast<int64_t>(value));
      }
    }
    return one("y", std::move(y));
  }
  // Of a run with these results and one with those.
  std::optional<std::string> compared(const Element& first, const Element& second) const {
    const Outputs a = run(first), b = run(second);
    const std::vector<Finding> about_a = judged(a), about_b = judged(b);
    return differing_error(contract_, reference_, bindings_, {a, about_a}, {b, about_b});
  }
  std::vector<Finding> judged(const Outputs& outputs) const {
    return judge(contract_, reference_, bindings_, outputs, {.diagnose = false})->findings;
  }
  const Bindings& bindings() const { return bindings_; }

 private:
  Contract contract_;
  reference::Reference reference_ = *reference::Reference::make(contract_);
  trial::Trial trial_;
  Bindings bindings_;
};

const Repeated::Element kForward = [](const Floats& row, int64_t) { return sequential(row); };
const Repeated::Element kByWarp = [](const Floats& row, int64_t) { return warp(row); };

TEST(DifferingError, IsNoneWhereNothingDiffers) {
  const Repeated sums("f32");
  EXPECT_FALSE(sums.compared(kForward, kForward));
  const Repeated::Element zero = [](const Floats&, int64_t) { return 0; };
  EXPECT_FALSE(sums.compared(zero, zero));
}

TEST(DifferingError, IsARightResultAndAWrongOne) {
  const Repeated sums("f32");
  const Repeated::Element zero = [](const Floats&, int64_t) { return 0; };
  EXPECT_THAT(sums.compared(zero, kForward), Optional(StartsWith("y[0] is first 0, then ")));
  EXPECT_TRUE(sums.compared(kForward, zero));
}

// Two orders of one sum are both right, however many bits differ.
TEST(DifferingError, IsNoRounding) {
  const Repeated sums("f32");
  ASSERT_NE(sums.run(kForward).at("y")->bytes, sums.run(kByWarp).at("y")->bytes);
  EXPECT_FALSE(sums.compared(kForward, kByWarp));
}

// Wrong by the same in both runs, and rounded by chance.
TEST(DifferingError, IsNoRoundingOfAWrongResult) {
  const Repeated sums("f32");
  const auto and_one = [](const Repeated::Element& sum) {
    return Repeated::Element([=](const Floats& row, int64_t i) { return sum(row, i) + 1; });
  };
  ASSERT_FALSE(sums.judged(sums.run(and_one(kForward))).empty());
  EXPECT_FALSE(sums.compared(and_one(kForward), and_one(kByWarp)));
  // … and what differs by more than rounding does, though by little of the error.
  const Repeated::Element more = [](const Floats& row, int64_t i) {
    return sequential(row) + (i == 7 ? 1.1 : 1);
  };
  EXPECT_THAT(sums.compared(and_one(kForward), more), Optional(StartsWith("y[7] is ")));
}

// Of many elements that round by chance, one is wrong: it is the worst.
TEST(DifferingError, IsFoundAmongRoundings) {
  const Repeated sums("f32");
  const Repeated::Element odd = [](const Floats& row, int64_t i) { return i == 321 ? 0 : warp(row); };
  EXPECT_THAT(sums.compared(kForward, odd), Optional(StartsWith("y[321] is ")));
  EXPECT_THAT(sums.compared(odd, kForward), Optional(StartsWith("y[321] is first 0, then ")));
}

// Every element may be wrong, and the worst is wrong in both runs: the others tell.
TEST(DifferingError, NeedNotBeTheWorst) {
  const Repeated sums("f32");
  const auto by_coin = [](uint64_t seed) {
    return Repeated::Element([=](const Floats& row, int64_t i) {
      if (i == 11) return 1e30f;
      return mix(static_cast<uint64_t>(i), seed) % 2 ? 0 : sequential(row);
    });
  };
  EXPECT_TRUE(sums.compared(by_coin(1), by_coin(2)));
}

// Rounded up or down by chance: each element is within what rounding can explain, all of them are not.
TEST(DifferingError, MayBeOfManySmallErrors) {
  const Repeated sums("bf16");
  const auto dithered = [](uint64_t seed) {
    return Repeated::Element([=](const Floats& row, int64_t i) {
      const float sum = sequential(row), down = truncated_bf16(sum);
      return mix(static_cast<uint64_t>(i), seed) % 2 ? down : 2 * bf16(sum) - down;
    });
  };
  ASSERT_FALSE(sums.judged(sums.run(dithered(1))).empty());
  // A coin may leave the worst of the first run as it was.
  int found = 0;
  for (uint64_t seed = 2; seed < 12; ++seed) found += sums.compared(dithered(1), dithered(seed)).has_value();
  EXPECT_GE(found, 5);
}

TEST(DifferingError, MayBeNanOrInfinite) {
  const Repeated sums("f32");
  const Repeated::Element nan = [](const Floats&, int64_t) { return NAN; };
  const Repeated::Element other = [](const Floats&, int64_t) { return -NAN; };
  const Repeated::Element infinite = [](const Floats&, int64_t) { return INFINITY; };
  EXPECT_THAT(sums.compared(nan, kForward), Optional(StartsWith("y[0] is first NaN, then ")));
  EXPECT_TRUE(sums.compared(kForward, infinite));
  EXPECT_TRUE(sums.compared(nan, infinite));
  EXPECT_FALSE(sums.compared(nan, other));
}

TEST(DifferingError, OfIntegersIsAnyDifference) {
  const Repeated sums("i32", "i32");
  const auto& x = *sums.bindings().inputs.at("x");
  const auto plus = [&](int64_t add) {
    return Repeated::Element([&x, add](const Floats&, int64_t i) {
      int64_t sum = 0;
      for (int64_t k = 0; k < kColumns; ++k) sum += x.load_int(i * kColumns + k);
      return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(sum)) + (i == 5 ? add : 0));
    });
  };
  EXPECT_THAT(sums.compared(plus(0), plus(1)), Optional(StartsWith("y[5] is ")));
  EXPECT_THAT(sums.compared(plus(100), plus(101)), Optional(StartsWith("y[5] is ")));
}

}  // namespace
}  // namespace assay::judge::testing
