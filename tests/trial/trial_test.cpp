#include "trial/trial.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/random.h"
#include "support.h"
#include "trial/families.h"
#include "trial/shapes.h"

namespace assay::trial {
namespace {

Tensor drawn(const Contract& contract, const Shape& shape, Family family, uint64_t seed = 5) {
  auto tensor = draw(*contract.tensor("x"), shape, family, seed);
  EXPECT_TRUE(tensor) << tensor.error().text();
  return std::move(*tensor);
}

const Shape kShape = {{"N", 37}, {"M", 64}};

struct Legal {
  const char* values;
  double low, high;
};

class FloatValues : public ::testing::TestWithParam<Legal> {};

INSTANTIATE_TEST_SUITE_P(All, FloatValues,
                         ::testing::Values(Legal{"real", -1.797e308, 1.797e308},
                                           Legal{"real(-0.3, 2.7)", -0.3, 2.7},
                                           Legal{"activations", -1e300, 1e300},
                                           Legal{"gradients", -1e300, 1e300}, Legal{"weights", -1e300, 1e300},
                                           Legal{"positive", 1e-320, 1e300}, Legal{"probabilities", 0, 1}));

TEST_P(FloatValues, AreLegalInEveryFamilyAndDtype) {
  for (const char* dtype : {"f32", "f16", "bf16", "e4m3", "e5m2", "f64"}) {
    const Contract contract = with_input(dtype, GetParam().values);
    for (const Family family : families_for(*contract.tensor("x"))) {
      const Tensor x = drawn(contract, kShape, family);
      ASSERT_EQ(x.count(), 37 * 64);
      for (int64_t i = 0; i < x.count(); ++i) {
        ASSERT_TRUE(std::isfinite(x.load(i))) << dtype << " " << to_string(family);
        ASSERT_GE(x.load(i), GetParam().low) << dtype << " " << to_string(family);
        ASSERT_LE(x.load(i), GetParam().high) << dtype << " " << to_string(family);
      }
    }
  }
}

TEST(IntegerValues, AreLegalInEveryFamily) {
  for (const char* values : {"index(M)", "tokens(M)", "integers(-3, 60)"}) {
    const Contract contract = with_input("i64", values);
    const bool plain = std::string(values).starts_with("integers");
    for (const Family family : families_for(*contract.tensor("x"))) {
      const Tensor x = drawn(contract, kShape, family);
      for (int64_t i = 0; i < x.count(); ++i) {
        ASSERT_GE(x.load_int(i), plain ? -3 : 0) << values << " " << to_string(family);
        ASSERT_LE(x.load_int(i), plain ? 60 : 63) << values << " " << to_string(family);
      }
    }
  }
}

TEST(IntegerValues, DistinctAndSlotsNameNoPlaceTwice) {
  for (const bool slots : {false, true}) {
    const Contract contract = with_input("i64", slots ? "slots(M)" : "distinct(M)", R"(["N"])");
    for (const Family family : families_for(*contract.tensor("x"))) {
      const Tensor x = drawn(contract, {{"N", 50}, {"M", 64}}, family);
      std::set<int64_t> seen;
      for (int64_t i = 0; i < x.count(); ++i) {
        const int64_t at = x.load_int(i);
        ASSERT_GE(at, slots ? -1 : 0) << to_string(family);
        ASSERT_LT(at, 64) << to_string(family);
        ASSERT_TRUE(at < 0 || seen.insert(at).second) << at << " twice, " << to_string(family);
      }
    }
  }
  // More tokens than slots: the rest have none. Distinct ones cannot be, and no shape asks for them.
  const Contract slots = with_input("i64", "slots(M)", R"(["N"])");
  EXPECT_TRUE(draw(*slots.tensor("x"), {{"N", 9}, {"M", 4}}, Family::Natural, 1));
  const Contract distinct = with_input("i64", "distinct(M)", R"(["N"])");
  EXPECT_FALSE(draw(*distinct.tensor("x"), {{"N", 9}, {"M", 4}}, Family::Natural, 1));
  EXPECT_FALSE(distinct.check_shape({{"N", 9}, {"M", 4}}));
}

// Where an epsilon takes over depends on what it is added to: the rows have scales from 2^-10 down to 2^-31.
TEST(Families, SmallScaleHasSeveralScales) {
  const Contract contract = with_input("f32", "activations");
  const Tensor x = drawn(contract, kShape, Family::SmallScale);
  std::set<int> scales;
  for (int64_t r = 0; r < 37; ++r) {
    double largest = 0;
    for (int64_t c = 0; c < 64; ++c) largest = std::max(largest, std::abs(x.load(r * 64 + c)));
    scales.insert(largest > 0x1p-12 ? 10 : largest > 0x1p-19 ? 17 : largest > 0x1p-26 ? 24 : 31);
  }
  EXPECT_EQ(scales, (std::set<int>{10, 17, 24, 31}));
}

// Of a sharp softmax: tiny ones, and rows that one element has almost for itself. Each row sums up to one.
TEST(Families, HeavyTailedProbabilitiesAreThoseOfASharpSoftmax) {
  const Contract contract = with_input("f32", "probabilities");
  const Tensor x = drawn(contract, kShape, Family::HeavyTail);
  int tiny = 0, almost_one = 0;
  for (int64_t r = 0; r < 37; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 64; ++c) {
      const double p = x.load(r * 64 + c);
      sum += p;
      tiny += p > 0 && p < 1e-9;
      almost_one += p > 0.95 && p < 1;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_GT(tiny, 100);
  EXPECT_GT(almost_one, 3);
}

// Running minima and maxima begin at the first element.
TEST(Families, InfinityIsAtBothEnds) {
  const Contract contract = with_input("f32", "activations");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Tensor x = drawn(contract, kShape, Family::InfElement, seed);
    EXPECT_TRUE(std::isinf(x.load(0)) && std::isinf(x.load(x.count() - 1))) << seed;
  }
}

// A kernel that leaves out a tail, or starts at the second element, is to miss what counts: in rows, in columns, and where all
// dims are reduced together.
TEST(Families, ExtremesAreAtTheEndsOfSomeLines) {
  const Contract contract = with_input("f32", "activations");
  for (const Family family : {Family::Natural, Family::SameSign})
    for (const uint64_t seed : {1, 2, 3}) {
      const Tensor x = drawn(contract, kShape, family, seed);
      constexpr int64_t kRows = 37, kColumns = 64;
      const auto at = [&](int64_t r, int64_t c) { return x.load(r * kColumns + c); };
      int largest_last = 0, smallest_last = 0, largest_first = 0, column_largest_last = 0;
      double largest = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        bool is_largest = true, is_smallest = true, first = true;
        for (int64_t c = 0; c < kColumns; ++c) {
          is_largest &= at(r, c) <= at(r, kColumns - 1);
          is_smallest &= at(r, c) >= at(r, kColumns - 1);
          first &= at(r, c) <= at(r, 0);
          largest = std::max(largest, at(r, c));
        }
        largest_last += is_largest;
        smallest_last += is_smallest;
        largest_first += first;
      }
      for (int64_t c = 0; c < kColumns; ++c) {
        bool is_largest = true;
        for (int64_t r = 0; r < kRows; ++r) is_largest &= at(r, c) <= at(kRows - 1, c);
        column_largest_last += is_largest;
      }
      EXPECT_GE(largest_last, 8) << to_string(family) << seed;
      EXPECT_GE(smallest_last, 8) << to_string(family) << seed;
      EXPECT_GE(largest_first, 8) << to_string(family) << seed;
      EXPECT_GE(column_largest_last, 8) << to_string(family) << seed;
      if (family == Family::SameSign) {
        EXPECT_EQ(at(kRows - 1, kColumns - 1), largest);
      }
    }
  // The only row of a positive tensor ends with its largest.
  const Tensor row = drawn(contract, {{"N", 1}, {"M", 64}}, Family::SameSign);
  for (int64_t c = 0; c < 64; ++c) EXPECT_LE(row.load(c), row.load(63));
}

// What is drawn from a table comes up again in a long row, and bf16 has few numbers: the last is the only largest all the same.
TEST(Families, TheLargestAtTheEndIsTheOnlyOne) {
  const Contract contract = with_input("bf16", "real");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Tensor x = drawn(contract, {{"N", 1}, {"M", 4000}}, Family::SameSign, seed);
    for (int64_t c = 0; c < 3999; ++c) EXPECT_LT(x.load(c), x.load(3999)) << seed;
  }
}

// Probabilities stay those of their rows.
TEST(Families, ExtremesOfProbabilitiesStayInTheirRows) {
  const Contract contract = with_input("f32", "probabilities");
  const Tensor x = drawn(contract, kShape, Family::Natural);
  for (int64_t r = 0; r < 37; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 64; ++c) sum += x.load(r * 64 + c);
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST(Families, MovingExtremesKeepsTheNumbers) {
  const Contract contract = with_input("i32", "integers(-1000000, 1000000)");
  const Tensor x = drawn(contract, kShape, Family::Uniform);
  bool is_there[2] = {false, false};
  for (int64_t i = 0; i < x.count(); ++i) {
    is_there[0] |= x.load_int(i) == -1000000;
    is_there[1] |= x.load_int(i) == 1000000;
  }
  EXPECT_TRUE(is_there[0] && is_there[1]) << "both ends of the range";
  const int64_t last = x.load_int(x.count() - 1);
  EXPECT_TRUE(last == 1000000 || last == -1000000) << last;
}

// Where a maximum starts too high (-1e4, -1e9) shows only where all that it is taken of is lower: rows, columns, windows.
TEST(Families, NegativeHasRowsColumnsAndWindowsFarBelow) {
  const Contract contract = with_input("f32", "activations");
  const Tensor row = drawn(contract, {{"N", 1}, {"M", 64}}, Family::Negative);
  for (int64_t c = 0; c < 64; ++c) EXPECT_LT(row.load(c), -65504);
  for (const auto& [family, least, most] :
       {std::tuple(Family::Negative, -1e6, -65504.0), std::tuple(Family::FarBelow, -1e11, -1e9)}) {
    const Tensor x = drawn(contract, kShape, family);
    const auto is_far = [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c)
          if (x.load(r * 64 + c) > most || x.load(r * 64 + c) < least) return false;
      return true;
    };
    EXPECT_TRUE(is_far(28, 37, 0, 64)) << "rows";
    EXPECT_TRUE(is_far(0, 9, 32, 64)) << "beside near ones";
    EXPECT_GT(x.load(0), -10);
  }
  const auto knows = [](const char* dtype) {
    const std::vector<Family> families = families_for(*with_input(dtype, "real").tensor("x"));
    return std::find(families.begin(), families.end(), Family::FarBelow) != families.end();
  };
  EXPECT_TRUE(knows("bf16"));
  EXPECT_FALSE(knows("f16")) << "it has no such numbers";
}

TEST(Families, InfinitePartsAreRowsOrAll) {
  const Contract contract = with_input("bf16", "real");
  const auto infinite = [&](Family family, const Shape& shape) {
    const Tensor x = drawn(contract, shape, family);
    int64_t count = 0;
    const bool negative = family == Family::NegInfPart || family == Family::AllNegInf;
    for (int64_t i = 0; i < x.count(); ++i)
      count += std::isinf(x.load(i)) && std::signbit(x.load(i)) == negative;
    return count;
  };
  for (const Family family : {Family::InfPart, Family::NegInfPart}) {
    EXPECT_EQ(infinite(family, kShape), 19 * 64);
    EXPECT_EQ(infinite(family, {{"N", 1}, {"M", 64}}), 64) << "the only row";
  }
  for (const Family family : {Family::AllInf, Family::AllNegInf})
    EXPECT_EQ(infinite(family, kShape), 37 * 64);
}

// A range without integers has multiples of a power of two instead, so that products are exact and ties are met.
TEST(Families, LevelsAreOfRowsAndOfBothSigns) {
  Trial trial;
  trial.shape = {{"N", 200}, {"M", 16}};
  trial.families["x"] = Family::Levels;
  std::set<int> sizes;
  const Contract real = with_input("f32", "real");
  const auto inputs = make_inputs(real, trial);
  ASSERT_TRUE(inputs);
  const Tensor& x = *inputs->inputs.at("x");
  for (int64_t r = 0; r < 200; ++r) {
    double mean = 0, farthest = 0;
    for (int64_t c = 0; c < 16; ++c) mean += x.load(r * 16 + c) / 16;
    for (int64_t c = 0; c < 16; ++c) farthest = std::max(farthest, std::abs(x.load(r * 16 + c) - mean));
    EXPECT_LT(farthest, 6) << r;
    sizes.insert(static_cast<int>(std::lround(mean / 6)));
  }
  EXPECT_EQ(sizes, (std::set<int>{-10, -5, -3, -2, -1, 0, 1, 2, 3, 5, 10}));
  const Contract range = with_input("f32", "real(-2, 7)");
  const auto bounded = make_inputs(range, trial);
  ASSERT_TRUE(bounded);
  int low = 0, high = 0, between = 0;
  for (int64_t r = 0; r < 200; ++r) {
    const double first = bounded->inputs.at("x")->load(r * 16),
                 last = bounded->inputs.at("x")->load(r * 16 + 15);
    low += first == -2 && last == -2;
    high += first == 7 && last == 7;
    between += first != last;
  }
  EXPECT_EQ(low + high + between, 200);
  EXPECT_GT(std::min({low, high, between}), 40);
}

TEST(Families, SmallIntegersFitEveryRange) {
  const Contract contract = with_input("f32", "real(0.00001, 0.01)");
  const Tensor x = drawn(contract, kShape, Family::SmallIntegers);
  std::set<double> values;
  for (int64_t i = 0; i < x.count(); ++i) values.insert(x.load(i));
  EXPECT_EQ(values, (std::set<double>{0x1p-9, 0x1p-8, 3 * 0x1p-9, 0x1p-7}));
}

// A row in which -0 comes before +0 and nothing is larger: who compares bits takes the wrong one.
TEST(Ties, HoldBothZeros) {
  const Contract contract = with_input("f32", "activations");
  const Tensor x = drawn(contract, kShape, Family::Ties);
  int telling = 0;
  for (int64_t r = 0; r < 37; ++r) {
    ASSERT_FALSE(x.load(r * 64) == 0 && std::signbit(x.load(r * 64)));
    int64_t first = -1;
    bool larger = false, plain_first = false;
    for (int64_t c = 0; c < 64; ++c) {
      const double value = x.load(r * 64 + c);
      larger |= value > 0;
      if (value == 0 && first < 0) first = c, plain_first = !std::signbit(value);
    }
    telling += !larger && first >= 0 && !plain_first;
  }
  EXPECT_GE(telling, 3);
}

TEST(IntegerValues, OffsetsRiseFromZeroToTheEnd) {
  const Contract contract = with_input("i32", "offsets(M)", R"(["N"])");
  for (const Family family : families_for(*contract.tensor("x"))) {
    const Tensor x = drawn(contract, kShape, family);
    EXPECT_EQ(x.load_int(0), 0) << to_string(family);
    EXPECT_EQ(x.load_int(x.count() - 1), 64) << to_string(family);
    for (int64_t i = 1; i < x.count(); ++i) ASSERT_LE(x.load_int(i - 1), x.load_int(i)) << to_string(family);
  }
  EXPECT_FALSE(draw(*contract.tensor("x"), {{"N", 1}, {"M", 64}}, Family::Natural, 1));
}

TEST(IntegerValues, TokensHaveHotRows) {
  const Contract contract = with_input("i64", "tokens(M)", R"(["N"])");
  const Tensor x = drawn(contract, {{"N", 5000}, {"M", 1000}}, Family::Zipf);
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < x.count(); ++i) ++counts[x.load_int(i)];
  int hottest = 0;
  for (const auto& [token, count] : counts) hottest = std::max(hottest, count);
  EXPECT_GT(hottest, 300);         // uniform: about 5
  EXPECT_GT(counts.size(), 300u);  // and still many different ones
}

TEST(IntegerValues, NearTopMakesTheLargestSums) {
  const Contract contract = with_input("i64", "integers(-128, 127)", R"(["N"])");
  const Tensor x = drawn(contract, {{"N", 1000}, {"M", 1}}, Family::NearTop);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < x.count(); ++i) {
    EXPECT_GE(x.load_int(i), 112);
    seen.insert(x.load_int(i));
  }
  EXPECT_GT(seen.size(), 10u);
}

TEST(IntegerValues, LargestIsTheFarEndOfTheRange) {
  const Contract bytes = with_input("i64", "integers(-128, 127)", R"(["N"])");
  const Tensor low = drawn(bytes, {{"N", 100}, {"M", 1}}, Family::Largest);
  for (int64_t i = 0; i < low.count(); ++i) EXPECT_EQ(low.load_int(i), -128);
  const Contract counts = with_input("i64", "integers(-3, 9)", R"(["N"])");
  EXPECT_EQ(drawn(counts, {{"N", 1}, {"M", 1}}, Family::Largest).load_int(0), 9);
}

// A mask that is out for whole stretches: short ones and such as cover a tile or a row.
TEST(IntegerValues, RunsAreShortAndLong) {
  const Contract contract = with_input("u8", "mask", R"(["N"])");
  const Tensor x = drawn(contract, {{"N", 4096}, {"M", 1}}, Family::Runs);
  int64_t run = 1, longest = 1, shortest = 4096;
  for (int64_t i = 1; i < x.count(); ++i) {
    if (x.load_int(i) == x.load_int(i - 1)) {
      longest = std::max(longest, ++run);
    } else {
      shortest = std::min(shortest, run);
      run = 1;
    }
  }
  EXPECT_GE(longest, 256);
  EXPECT_LE(shortest, 8);
}

TEST(IntegerValues, PermutedAreAllDifferent) {
  const Contract contract = with_input("i64", "index(M)", R"(["N"])");
  const Tensor x = drawn(contract, {{"N", 64}, {"M", 64}}, Family::Permuted);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < x.count(); ++i) seen.insert(x.load_int(i));
  EXPECT_EQ(seen.size(), 64u);
}

TEST(Injection, PutsOneNanOrOneRow) {
  const Contract contract = with_input("bf16", "real");
  const auto nans = [&](Family family) {
    const Tensor x = drawn(contract, kShape, family);
    int64_t count = 0;
    for (int64_t i = 0; i < x.count(); ++i) count += std::isnan(x.load(i));
    return count;
  };
  EXPECT_EQ(nans(Family::NanElement), 1);
  EXPECT_EQ(nans(Family::NanRow), 64);
  EXPECT_EQ(nans(Family::Natural), 0);
}

TEST(Names, AreThereAndBack) {
  for (int i = 0; i <= static_cast<int>(Family::OnePart); ++i) {
    const auto family = static_cast<Family>(i);
    Family back = Family::Natural;
    ASSERT_TRUE(family_named(to_string(family), back));
    EXPECT_EQ(back, family);
  }
  Family none;
  EXPECT_FALSE(family_named("no-such-family", none));
}

TEST(Inputs, FollowFromTheTrialAlone) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = kShape;
  trial.seed = 17;
  const auto once = make_inputs(contract, trial), again = make_inputs(contract, trial);
  EXPECT_EQ(once->inputs.at("x")->bytes, again->inputs.at("x")->bytes);
  trial.seed = 18;
  EXPECT_NE(once->inputs.at("x")->bytes, make_inputs(contract, trial)->inputs.at("x")->bytes);
}

TEST(TrialJson, ThereAndBack) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = kShape;
  trial.seed = 123456789012345;
  trial.families["x"] = Family::HeavyTail;
  trial.scalars["eps"] = contract::Scalar::of(contract::DType::f32, 1e-6);
  trial.condition.poison = Poison::Ones;
  trial.condition.schedule = 99;
  trial.condition.overlapped = true;
  trial.condition.ordered = false;
  trial.condition.shared_inputs = trial.condition.looped = true;
  trial.condition.gpu = 2;
  trial.condition.clock = 1804991400;
  const auto back = from_json(contract, to_json(trial));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(to_json(*back), to_json(trial));
  EXPECT_FALSE(from_json(contract, nlohmann::ordered_json::parse(R"({"shape": {"N": 3}})")));
  auto illegal = to_json(trial);
  illegal["shape"]["M"] = 7;  // not a multiple of 8
  EXPECT_FALSE(from_json(contract, illegal));
  auto unknown = to_json(trial);
  unknown["condition"]["gpu"] = "voodoo2";
  EXPECT_FALSE(from_json(contract, unknown));
  EXPECT_NE(to_string(trial).find("NVIDIA H20 (78 multiprocessors), clock at 2027-03-14 02:30"),
            std::string::npos)
      << to_string(trial);
}

TEST(SharedInputs, AreThoseForWhichTheSameValuesAreLegal) {
  const auto input = [](const char* name, const char* dtype, const char* values, const char* more = "") {
    return fmt::format("[tensors.{}]\ndtype = \"{}\"\nshape = [\"N\", \"M\"]\nvalues = \"{}\"\n{}\n", name,
                       dtype, values, more);
  };
  const Contract contract = parsed(input("x", "f32", "activations") + input("b", "f32", "weights") +
                                       input("c", "f32", "positive") + input("d", "bf16", "weights") +
                                       input("e", "f32", "real", "align = 4") + input("g", "f32", "positive"),
                                   "", R"("x", "b", "c", "d", "e", "g", "y", "N", "M")");
  const auto owner = [&](const char* name) {
    return shared_input(contract, *contract.tensor(name), kShape).name;
  };
  EXPECT_EQ(owner("b"), "x");
  EXPECT_EQ(owner("g"), "c");
  for (const char* alone : {"x", "c", "d", "e", "y"}) EXPECT_EQ(owner(alone), alone);
  Trial trial;
  trial.shape = kShape;
  EXPECT_NE(make_inputs(contract, trial)->inputs.at("x")->bytes,
            make_inputs(contract, trial)->inputs.at("b")->bytes);
  trial.condition.shared_inputs = true;
  const auto bindings = make_inputs(contract, trial);
  EXPECT_EQ(bindings->inputs.at("x"), bindings->inputs.at("b"));
}

TEST(Shapes, SnapIsLegal) {
  const Contract contract = with_input("bf16", "real");
  for (const int64_t value : {-5, 0, 1, 7, 8, 9, 100, 5000, 1 << 20}) {
    for (const contract::Dim& dim : contract.dims)
      EXPECT_TRUE(dim.contains(snap(dim, value))) << dim.name << " " << value;
  }
  EXPECT_EQ(snap(*contract.dim("M"), 100), 96);
}

TEST(Shapes, InterestingValuesHoldTheEdges) {
  const Contract contract = with_input("bf16", "real");
  const std::vector<int64_t> n = interesting(*contract.dim("N"), 1 << 20);
  for (const int64_t value : {1, 2, 31, 32, 33, 127, 128, 129, 255, 257, 1023, 1025, 4999, 5000}) {
    EXPECT_NE(std::find(n.begin(), n.end(), value), n.end()) << value;
  }
  EXPECT_EQ(std::set<int64_t>(n.begin(), n.end()).size(), n.size());
}

TEST(Shapes, FitKeepsWhatItIsAsked) {
  const Contract contract = with_input("bf16", "real");
  const Fitted fitted = fit(contract, {{"N", 5000}, {"M", 4096}}, 1e5, 1e9, "N");
  EXPECT_TRUE(fitted.fits && fitted.reduced);
  EXPECT_EQ(fitted.shape.at("N"), 5000);
  EXPECT_LE(size_of(contract, fitted.shape)->elements, 1e5);
}

// Two inputs at one address hold the same values, whoever made them.
TEST(Inputs, AtOneAddressAreTheSame) {
  const Contract contract = *contract::parse(R"(
    [kernel]
    source = "k.cu"
    entry = "k"
    args = ["a", "b", "y"]
    [dims]
    N = { min = 1, max = 64 }
    [tensors.a]
    dtype = "f32"
    shape = ["N"]
    [tensors.b]
    dtype = "f32"
    shape = ["N"]
    [tensors.y]
    dtype = "f32"
    shape = ["N"]
    role = "out"
    [reference]
    formula = "y[i] = a[i] * b[i]"
  )");
  const Generator generator = [](const Shape& shape, uint64_t) {
    std::map<std::string, contract::Tensor> made;
    for (const auto& [name, value] : {std::pair{"a", 1.0}, std::pair{"b", 2.0}})
      made[name] = contract::Tensor::of(contract::DType::f32, {shape.at("N")},
                                        std::vector<double>(static_cast<std::size_t>(shape.at("N")), value));
    return Result<std::map<std::string, contract::Tensor>>(std::move(made));
  };
  Trial trial;
  trial.shape = {{"N", 8}};
  trial.families = {{"a", Family::Problem}, {"b", Family::Problem}};
  EXPECT_EQ(make_inputs(contract, trial, generator)->inputs.at("b")->load(0), 2);
  trial.condition.shared_inputs = true;
  EXPECT_EQ(make_inputs(contract, trial, generator)->inputs.at("b")->load(0), 1);
}

TEST(Inputs, OfTheGeneratorAreItsOwnWhereTheTrialAsksForThem) {
  const Generator generator = [](const Shape& shape, uint64_t seed) {
    std::map<std::string, contract::Tensor> made;
    const std::vector<double> values(static_cast<std::size_t>(shape.at("N")), static_cast<double>(seed));
    made["x"] = contract::Tensor::of(contract::DType::f32, {shape.at("N")}, values);
    made["i"] = contract::Tensor::of(contract::DType::i64, {shape.at("N")}, values);
    return Result<std::map<std::string, contract::Tensor>>(std::move(made));
  };
  Trial trial;
  trial.shape = {{"N", 48}};
  trial.seed = 7;
  const Contract drawn = of_problem("index(N)"), generated = of_problem("generated");
  EXPECT_NE(make_inputs(drawn, trial, generator)->inputs.at("x")->load(3), 7);
  trial.families["x"] = Family::Problem;
  const auto asked = make_inputs(drawn, trial, generator);
  EXPECT_EQ(asked->inputs.at("x")->load(3), 7);
  EXPECT_NE(asked->inputs.at("i")->load_int(3) == 7 && asked->inputs.at("i")->load_int(4) == 7, true);
  trial.families.clear();
  EXPECT_EQ(make_inputs(generated, trial, generator)->inputs.at("i")->load_int(3), 7);
  EXPECT_FALSE(make_inputs(generated, trial));  // nobody else knows what is legal
}

}  // namespace
}  // namespace assay::trial
