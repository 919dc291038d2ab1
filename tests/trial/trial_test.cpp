#include "trial/trial.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/random.h"
#include "trial/families.h"
#include "trial/plan.h"
#include "trial/shapes.h"
#include "trial/shrink.h"

namespace assay::trial {
namespace {

using contract::Contract;
using contract::Shape;
using contract::Tensor;

Contract parsed(const std::string& tensors, const std::string& more = "",
                const std::string& args = R"("x", "y", "N", "M")") {
  const std::string text = R"(
[kernel]
source = "k.cu"
entry = "k"
args = [)" + args + R"(]
[dims]
N = { min = 1, max = 5000 }
M = { min = 8, max = 4096, multiple_of = 8 }
[tensors.y]
dtype = "f32"
shape = ["N", "M"]
role = "out"
)" + tensors + R"(
[reference]
formula = "y[i, j] = 0"
)" + more;
  auto contract = contract::parse(text);
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

Contract with_input(const std::string& dtype, const std::string& values,
                    const std::string& shape = R"(["N", "M"])") {
  return parsed("[tensors.x]\ndtype = \"" + dtype + "\"\nshape = " + shape + "\nvalues = \"" + values +
                "\"\n");
}

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

Plan::Affordable below(const Contract& contract, double elements) {
  return [&contract, elements](const Shape& shape, bool) {
    return size_of(contract, shape)->elements <= elements;
  };
}

std::vector<PlannedTrial> first_trials(const Contract& contract, uint64_t seed, int count) {
  Plan plan(contract, {.seed = seed});
  std::vector<PlannedTrial> trials;
  for (int i = 0; i < count; ++i) trials.push_back(plan.next(below(contract, 1e6)));
  return trials;
}

TEST(Plan, MakesLegalTrialsWithoutEnd) {
  const Contract contract = with_input("bf16", "gradients");
  std::set<std::string> stages;
  for (const PlannedTrial& planned : first_trials(contract, 3, 400)) {
    ASSERT_TRUE(contract.check_shape(planned.trial.shape)) << to_string(planned.trial);
    if (size_of(contract, planned.trial.shape)->elements < 1e5) {
      ASSERT_TRUE(make_inputs(contract, planned.trial)) << to_string(planned.trial);
    }
    stages.insert(std::string(planned.stage));
  }
  for (const char* stage : {"plain", "long sums", "NaN and infinity", "input families", "overlapping calls",
                            "earlier calls", "many calls", "edges", "wide", "random"}) {
    EXPECT_EQ(stages.count(stage), 1u) << stage;
  }
}

constexpr const char* kRelated = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "b", "y", "C", "K", "N", "mode"]
[dims]
G = { min = 1, max = 64 }
CPG = { min = 1, max = 64 }
C = "G * CPG"
K = { min = 1, max = 8192 }
N = { min = 1, max = 65536 }
require = ["K <= N", "N % G == 0"]
[tensors.x]
dtype = "f32"
shape = ["C", "K"]
strides = ["N", 1]
[tensors.b]
dtype = "f32"
shape = ["K"]
optional = true
[tensors.y]
dtype = "f32"
shape = ["C", "K"]
role = "out"
[scalars.mode]
dtype = "i32"
values = [0, 1]
[reference]
formula = "y[c, k] = x[c, k]"
[[case]]
when = "mode == 1"
formula = "y[c, k] = -x[c, k]"
)";

TEST(Plan, KeepsToTheRelationsBetweenDims) {
  const auto contract = contract::parse(kRelated);
  ASSERT_TRUE(contract) << contract.error().text();
  Plan plan(*contract, {});
  Requirements required = plan.requirements();
  std::set<int64_t> groups, sizes;
  for (int i = 0; i < 400; ++i) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    EXPECT_TRUE(contract->check_shape(planned.trial.shape)) << contract::to_string(planned.trial.shape);
    groups.insert(planned.trial.shape.at("G"));
    sizes.insert(planned.trial.shape.at("N"));
    required.meet(planned.trial);
  }
  EXPECT_GT(groups.size(), 10u);
  EXPECT_GT(sizes.size(), 20u);
  for (const Requirement* left : required.open()) ADD_FAILURE() << left->text;
}

TEST(Plan, TriesOptionalTensorsBothWaysAndEveryCase) {
  const auto contract = contract::parse(kRelated);
  ASSERT_TRUE(contract) << contract.error().text();
  Plan plan(*contract, {});
  std::set<std::string> texts;
  for (const Requirement* one : plan.requirements().open()) texts.insert(one->text);
  for (const char* text : {"b present", "b absent", "the case mode == 1", "none of the cases"})
    EXPECT_TRUE(texts.contains(text)) << text;
}

// The requirements that the first trials leave open, of a contract with these cases.
std::vector<std::string> left_open(const std::string& cases) {
  const auto contract = contract::parse(kRelated + cases);
  EXPECT_TRUE(contract) << contract.error().text();
  Plan plan(*contract, {});
  Requirements required = plan.requirements();
  for (int i = 0; i < 400; ++i) required.meet(plan.next([](const Shape&, bool) { return true; }).trial);
  std::vector<std::string> texts;
  for (const Requirement* one : required.open()) texts.push_back(one->text);
  return texts;
}

TEST(Plan, FindsCallsForCasesThatDependOnShapesAndSeveralScalars) {
  constexpr const char* kFormula = "formula = \"y[c, k] = 2 * x[c, k]\"\n";
  const auto with = [&](const std::string& when) {
    return left_open("[[case]]\nwhen = \"" + when + "\"\n" + kFormula);
  };
  EXPECT_EQ(with("G == 1 and mode == 0"), std::vector<std::string>{});
  EXPECT_EQ(with("K > 4000 and mode == 0"), std::vector<std::string>{});
  EXPECT_EQ(with("present(b) == 0 and mode == 0"), std::vector<std::string>{});
  // Where none is found, a pass must not be given in silence.
  EXPECT_EQ(with("mode == 7"), std::vector<std::string>{"the case mode == 7"});
}

TEST(Plan, TriesOptionalTensorsOneWithoutTheOther) {
  std::string text = kRelated;
  text.insert(text.find("[tensors.y]"), "[tensors.w]\ndtype = \"f32\"\nshape = [\"K\"]\noptional = true\n");
  const auto contract = contract::parse(text);
  ASSERT_TRUE(contract) << contract.error().text();
  std::set<std::pair<int64_t, int64_t>> seen;
  Plan plan(*contract, {});
  Requirements required = plan.requirements();
  EXPECT_EQ(required.count(RequirementGroup::Inputs).met, 0u);
  for (int i = 0; i < 200; ++i) {
    const Trial trial = plan.next([](const Shape&, bool) { return true; }).trial;
    seen.emplace(trial.scalars.at("present(b)").as_int(), trial.scalars.at("present(w)").as_int());
    required.meet(trial);
  }
  EXPECT_EQ(seen.size(), 4u);
  std::set<std::string> texts;
  for (const Requirement* one : plan.requirements().open()) texts.insert(one->text);
  EXPECT_TRUE(texts.contains("b without w"));
  EXPECT_TRUE(texts.contains("w without b"));
  for (const Requirement* one : required.open()) ADD_FAILURE() << one->text;
}

TEST(Shrink, KeepsToTheRelationsBetweenDims) {
  const auto contract = contract::parse(kRelated);
  ASSERT_TRUE(contract) << contract.error().text();
  Trial trial;
  trial.shape = {{"G", 32}, {"CPG", 16}, {"K", 900}, {"N", 1024}};
  const Shrunk shrunk = shrink(
      *contract, trial,
      [&](const Trial& candidate) {
        EXPECT_TRUE(contract->check_shape(candidate.shape)) << contract::to_string(candidate.shape);
        return candidate.shape.at("K") >= 5 && candidate.shape.at("G") >= 3;
      },
      300);
  EXPECT_EQ(shrunk.trial.shape, (Shape{{"G", 3}, {"CPG", 1}, {"K", 5}, {"N", 6}}));
}

// A full GPU, a slice and a smaller one, and several dates, before a check that has little time ends.
TEST(Plan, MeetsSeveralMachinesEarly) {
  const Contract contract = with_input("bf16", "gradients");
  const auto trials = first_trials(contract, 3, 400);
  std::set<uint32_t> sizes;
  std::set<int64_t> clocks;
  bool slice = false;
  for (std::size_t i = 0; i < 12; ++i) {
    const Gpu& gpu = kGpus[trials[i].trial.condition.gpu];
    sizes.insert(gpu.multiprocessors);
    slice |= gpu.slice;
    clocks.insert(trials[i].trial.condition.clock);
  }
  EXPECT_GE(sizes.size(), 3u);
  EXPECT_GE(clocks.size(), 3u);
  EXPECT_TRUE(slice);
  // A process goes on for long enough to show what dozens of calls leave behind.
  std::size_t stay = 1, longest = 1;
  for (std::size_t i = 1; i < trials.size(); ++i) {
    const Condition &a = trials[i - 1].trial.condition, &b = trials[i].trial.condition;
    stay = a.gpu == b.gpu && a.clock == b.clock ? stay + 1 : 1;
    longest = std::max(longest, stay);
  }
  EXPECT_GE(longest, 50u);
}

TEST(Plan, KeepsLargeTrialsOffSmallGpus) {
  const Contract contract = with_input("f64", "gradients");
  Plan plan(contract, {.seed = 3});
  for (int i = 0; i < 300; ++i) {
    const Trial trial = plan.next([](const Shape&, bool) { return true; }).trial;
    EXPECT_LE(size_of(contract, trial.shape)->bytes,
              0.1 * static_cast<double>(kGpus[trial.condition.gpu].bytes));
  }
}

// The device sees an error wherever a tile is cut off: numbers can only be judged at other shapes, and every
// kind of input and of condition is.
TEST(Plan, TriesAgainElsewhereWhatAnErrorHid) {
  const Contract contract = with_input("bf16", "gradients");
  Plan plan(contract, {.seed = 3});
  std::set<std::string> met, judged;
  const auto kinds = [](const Trial& trial) {
    std::set<std::string> found;
    for (const auto& [input, family] : trial.families) found.insert(std::string(to_string(family)));
    for (const std::string& kind : kinds_of(trial.condition)) found.insert(kind);
    return found;
  };
  for (int i = 0; i < 250; ++i) {
    const PlannedTrial planned = plan.next(below(contract, 1e6));
    ASSERT_TRUE(contract.check_shape(planned.trial.shape)) << to_string(planned.trial);
    const bool hides = planned.trial.shape.at("N") % 8 != 0;
    if (i < 100) met.merge(kinds(planned.trial));
    if (hides) {
      plan.hidden(planned);
    } else {
      judged.merge(kinds(planned.trial));
      plan.judged_at(planned.trial);
    }
  }
  EXPECT_EQ(met.count("nan-element"), 1u);
  for (const std::string& kind : met) EXPECT_EQ(judged.count(kind), 1u) << kind;
}

TEST(Plan, EqualSeedsGiveEqualPlans) {
  const Contract contract = with_input("bf16", "gradients");
  const auto a = first_trials(contract, 3, 300), b = first_trials(contract, 3, 300),
             c = first_trials(contract, 4, 300);
  bool differs = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(to_json(a[i].trial), to_json(b[i].trial));
    differs |= to_json(a[i].trial) != to_json(c[i].trial);
  }
  EXPECT_TRUE(differs);
}

TEST(Plan, HoldsTheContractsOwnShapesWhateverTheyCost) {
  const Contract contract =
      parsed("[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n[[shapes]]\nN = 4321\nM = 4096\n");
  Plan plan(contract, {});
  bool found = false;
  for (std::size_t i = 0; i < plan.planned(); ++i) {
    const PlannedTrial planned = plan.next(below(contract, 1e4));
    found |= planned.required && planned.trial.shape.at("N") == 4321;
  }
  EXPECT_TRUE(found);
}

// A contract of a Python function with two shapes and a generator.
Contract of_problem(const std::string& values) {
  return *contract::parse(
      "only_listed_shapes = true\n[kernel]\npython = \"answer.py:run\"\nargs = [\"x\", \"i\"]\n"
      "[dims]\nN = { min = 1, max = 4096 }\n[[shapes]]\nN = 48\n[[shapes]]\nN = 300\n"
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n"
      "[tensors.i]\ndtype = \"i64\"\nshape = [\"N\"]\nvalues = \"" +
          values +
          "\"\n[tensors.y]\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\n"
          "[reference]\ntorch = \"reference.py:run\"\n[inputs]\ntorch = \"inputs.py:make\"\n",
      "test.toml");
}

TEST(Plan, StaysAtTheListedShapesWhereNoOthersArePromised) {
  const Contract contract = of_problem("index(N)");
  std::set<int64_t> sizes;
  std::set<std::string> stages;
  for (const PlannedTrial& planned : first_trials(contract, 3, 400)) {
    sizes.insert(planned.trial.shape.at("N"));
    stages.insert(std::string(planned.stage));
  }
  EXPECT_EQ(sizes, (std::set<int64_t>{48, 300}));
  for (const char* stage :
       {"NaN and infinity", "input families", "earlier calls", "the problem's inputs", "random"})
    EXPECT_EQ(stages.count(stage), 1u) << stage;
  EXPECT_EQ(stages.count("edges"), 0u);
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

TEST(Plan, ProbesNanAndInfinityAlsoWhereValuesGiveARange) {
  const Contract contract = parsed(
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\nvalues = \"real(0.5, 2)\"\n"
      "[tensors.p]\ndtype = \"f32\"\nshape = [\"N\"]\nvalues = \"real(-2, 2)\"\n");
  std::set<std::pair<std::string, Family>> probed;
  for (const PlannedTrial& planned : first_trials(contract, 1, 150))
    for (const auto& [name, family] : planned.trial.families)
      if (is_nonfinite(family)) probed.insert({name, family});
  for (const Family family : {Family::NanElement, Family::NanRow, Family::InfElement})
    EXPECT_TRUE(probed.contains({"x", family}) && probed.contains({"p", family})) << to_string(family);
  EXPECT_TRUE(probed.contains({"p", Family::NegInfElement}));
  EXPECT_FALSE(probed.contains({"x", Family::NegInfElement})) << "its values are never negative";
}

TEST(Plan, LeavesNonfiniteInputsOutWhereTheyAreIgnored) {
  const Contract contract =
      parsed("[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n", "[require]\nnonfinite = \"ignore\"\n");
  for (const PlannedTrial& planned : first_trials(contract, 1, 400)) {
    for (const auto& [name, family] : planned.trial.families) EXPECT_FALSE(is_nonfinite(family));
  }
}

TEST(Plan, MakesAllInputsSmallAtOnceForEveryValueOfAScalar) {
  const Contract contract = parsed(
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n[tensors.z]\ndtype = \"f32\"\nshape = [\"N\"]\n"
      "[scalars.eps]\ndtype = \"f32\"\nvalues = [1e-6, 1e-5]\n");
  std::set<double> seen;
  for (const PlannedTrial& planned : first_trials(contract, 1, 60)) {
    const auto& families = planned.trial.families;
    if (families.contains("x") && families.at("x") == Family::SmallScale && families.contains("z") &&
        families.at("z") == Family::SmallScale)
      seen.insert(planned.trial.scalars.at("eps").as_double());
  }
  EXPECT_EQ(seen.size(), 2u);
}

// A contract with two inputs, so that families and NaN have something to choose from.
Contract two_inputs(const std::string& more = "") {
  return parsed(
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\", \"M\"]\n"
      "[tensors.z]\ndtype = \"f32\"\nshape = [\"M\"]\n",
      more);
}

TEST(Requirements, AreMetByTheTrialsThatOpenThePlan) {
  const Contract contract = two_inputs();
  Plan plan(contract, {});
  const auto all = plan.requirements().count();
  EXPECT_GT(all.of, 40u);
  EXPECT_EQ(all.met, 0u);
  std::size_t trials = 0;
  while (plan.requirements().count().met < all.of) {
    ASSERT_LT(++trials, plan.planned()) << plan.requirements().open().front()->text;
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    ASSERT_TRUE(planned.needed) << to_string(planned.trial);
    plan.judged(planned.trial);
  }
  EXPECT_LT(trials, 100u);
  EXPECT_TRUE(plan.needed_left().empty());
}

TEST(Requirements, NameEveryConditionEveryFamilyAndBothSidesOfAWarp) {
  const Contract contract = two_inputs();
  Plan plan(contract, {});
  std::set<std::string> open;
  for (const Requirement* requirement : plan.requirements().open()) open.insert(requirement->text);
  for (const char* text : {"two calls at once",
                           "after earlier calls",
                           "after a smaller call",
                           "calls with related inputs",
                           "moved",
                           "repeated",
                           "another schedule",
                           "lanes out of step",
                           "last blocks and warps first",
                           "a starved block and warp",
                           "warps interleaved at every atomic",
                           "memory poisoned with large",
                           "heavy-tail",
                           "x nan-element",
                           "z nan-element",
                           "N = 31",
                           "N = 33",
                           "N = 1025",
                           "M = 8",
                           "M = 264",
                           "N >= 4096",
                           "M >= 4096",
                           "the smallest shape"})
    EXPECT_TRUE(open.contains(text)) << text;
}

TEST(Requirements, AreWaivedWhereNoLegalTrialCouldMeetThem) {
  Requirements requirements;
  const auto at = [](int64_t n) { return [n](const Trial& trial) { return trial.shape.at("N") == n; }; };
  requirements.add(RequirementGroup::Edges, "N = 1", at(1));
  requirements.add(RequirementGroup::Edges, "N = 2", at(2));
  Trial one, two;
  one.shape = {{"N", 1}};
  two.shape = {{"N", 2}};
  const Trial* left[] = {&two};
  requirements.waive(one, left);
  requirements.waive(two, left);  // another trial may still meet it
  EXPECT_EQ(requirements.count().of, 1u);
  EXPECT_TRUE(requirements.wants(two));
  requirements.meet(two);
  EXPECT_EQ(requirements.count().met, 1u);
}

// A promise far beyond what can be tried asks for no more than the limits of corners.
TEST(Requirements, DoNotGrowWithThePromise) {
  auto contract = contract::parse(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N", "M"]
[dims]
N = { min = 1, max = 1000000 }
M = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["N", "M"]
[tensors.y]
dtype = "f32"
shape = ["N", "M"]
role = "out"
[reference]
formula = "y[i, j] = x[i, j]"
)");
  ASSERT_TRUE(contract);
  Plan plan(*contract, {});
  for (;;) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    if (!planned.needed) break;
    EXPECT_LE(size_of(*contract, planned.trial.shape)->elements, 6e5) << to_string(planned.trial);
    EXPECT_LE(planned.trial.shape.at("N"), 4099) << to_string(planned.trial);
  }
}

TEST(Thresholds, AreTriedOnBothSidesAloneAndTogether) {
  const Contract contract = two_inputs();
  PlanOptions options;
  options.constants = {{1000, 2560}, {{96, 32}}, {3333}};
  Plan plan(contract, options);
  std::set<int64_t> n, m;
  bool together = false;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const Trial trial = plan.next([](const Shape&, bool) { return true; }).trial;
    n.insert(trial.shape.at("N"));
    m.insert(trial.shape.at("M"));
    together |= trial.shape.at("N") > 1000 && trial.shape.at("M") % 96 == 32;
  }
  for (const int64_t value : {999, 1000, 1001, 2559, 2560, 2561, 2568, 3334, 128})
    EXPECT_TRUE(n.contains(value)) << value;
  for (const int64_t value : {1000, 1008, 2552, 2560, 2568, 3336, 128})
    EXPECT_TRUE(m.contains(value)) << value;
  EXPECT_TRUE(together);
}

// Nothing else stands for a size that the code itself singles out.
TEST(Thresholds, AreRequiredWhereTheCodeNamesASize) {
  const Contract contract = two_inputs();
  PlanOptions options;
  options.constants = {{1000, 2560}, {{96, 32}}, {3333}};
  Plan plan(contract, options);
  std::set<std::string> required;
  for (const Requirement* requirement : plan.requirements().open())
    if (requirement->group == RequirementGroup::Thresholds) required.insert(requirement->text);
  for (const char* text : {"N = 999", "N = 1000", "N = 1001", "N = 2560", "N = 2561", "N = 128", "N = 1088",
                           "M = 1000", "M = 1008", "M = 128"})
    EXPECT_TRUE(required.contains(text)) << text;
  EXPECT_FALSE(required.contains("N = 3333")) << "nothing is compared with it";
  // Whatever the time, what is missing is known.
  std::size_t needed = 0;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    if (planned.stage != "thresholds" || !planned.needed) continue;
    ++needed;
    EXPECT_FALSE(plan.requirements().open().empty());
  }
  EXPECT_GE(needed, 10u);
}

TEST(Thresholds, ProductsOfDimsPassThem) {
  const Contract contract = two_inputs();
  PlanOptions options;
  options.constants.compared = {1 << 18};
  Plan plan(contract, options);
  int beyond = 0;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    const int64_t product = planned.trial.shape.at("N") * planned.trial.shape.at("M");
    beyond += planned.stage == "thresholds" && product > 1 << 18 && product < 1.1 * (1 << 18);
  }
  EXPECT_GE(beyond, 2);
}

TEST(Plan, HoldsTheSizesOfRealModels) {
  const Contract contract = two_inputs();
  Plan plan(contract, {});
  std::set<int64_t> m;
  for (std::size_t left = plan.planned(); left > 0; --left)
    m.insert(plan.next([](const Shape&, bool) { return true; }).trial.shape.at("M"));
  for (const int64_t size : {64, 80, 112, 768, 2560, 3584, 4096}) EXPECT_TRUE(m.contains(size)) << size;
}

TEST(Plan, RepeatsSumsOfUnlikeNumbersWhereBitsMustBeTheSame) {
  const auto repeats = [](const std::string& require) {
    const Contract contract = parsed("[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n", require);
    int count = 0;
    for (const PlannedTrial& planned : first_trials(contract, 1, 120))
      count += planned.stage == "repeated calls" && planned.trial.families.contains("x") &&
               planned.trial.families.at("x") == Family::HeavyTail && planned.trial.condition.repeated;
    return count;
  };
  EXPECT_GE(repeats("[require]\ndeterministic = true\n"), 2);
  EXPECT_EQ(repeats(""), 0);
}

TEST(Shrink, FindsTheSmallestShape) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = {{"N", 4321}, {"M", 1024}};
  trial.families["x"] = Family::Outliers;
  trial.condition.schedule = 77;
  const Shrunk shrunk =
      shrink(contract, trial, [](const Trial& t) { return t.shape.at("N") >= 17 && t.shape.at("M") >= 40; });
  EXPECT_EQ(shrunk.trial.shape.at("N"), 17);
  EXPECT_EQ(shrunk.trial.shape.at("M"), 40);
  EXPECT_EQ(shrunk.trial.families.at("x"), Family::Natural);
  EXPECT_EQ(shrunk.trial.condition.schedule, 0u);
  EXPECT_LE(shrunk.attempts, 60);
}

TEST(Shrink, SpendsLittleOnLargeTrials) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = {{"N", 3000}, {"M", 2048}};
  double cost = 0;
  const Shrunk shrunk = shrink(contract, trial, [&](const Trial& t) {
    cost += static_cast<double>(t.shape.at("N") * t.shape.at("M")) / (3000.0 * 2048.0);
    return t.shape.at("M") >= 96;
  });
  EXPECT_EQ(shrunk.trial.shape.at("N"), 1);
  EXPECT_EQ(shrunk.trial.shape.at("M"), 96);
  EXPECT_LT(cost, 2);  // in trials as large as the first, which is tried once under plain conditions
}

TEST(Shrink, TriesNothingTwice) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = {{"N", 777}, {"M", 512}};
  std::set<std::string> tried;
  shrink(contract, trial, [&](const Trial& t) {
    EXPECT_TRUE(tried.insert(to_json(t).dump()).second) << to_string(t);
    return t.shape.at("N") * t.shape.at("M") > 5000;
  });
}

TEST(Plan, SmallTrialsDoNotWaitForLargeOnes) {
  const Contract contract = with_input("bf16", "gradients");
  Plan plan(contract, {});
  double small = 0, large = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    (plan.work().of(planned.trial.shape)->steps < 1e5 ? small : large) += 1;
  }
  EXPECT_GT(small, 4 * large);
}

TEST(Shrink, KeepsWhatMatters) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = {{"N", 100}, {"M", 64}};
  trial.families["x"] = Family::NanRow;
  const Shrunk shrunk =
      shrink(contract, trial, [](const Trial& t) { return t.families.at("x") == Family::NanRow; });
  EXPECT_EQ(shrunk.trial.families.at("x"), Family::NanRow);
  EXPECT_EQ(shrunk.trial.shape.at("N"), 1);
}

}  // namespace
}  // namespace assay::trial
