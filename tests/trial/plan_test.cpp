#include "trial/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support.h"
#include "trial/families.h"
#include "trial/shapes.h"

namespace assay::trial {
namespace {

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

// logaddexp of two infinities: they have to be at the same element, of one sign and of both.
TEST(Plan, LetsInfinitiesOfAllInputsMeet) {
  const Contract contract = two_inputs();
  Plan plan(contract, {.seed = 1});
  std::set<std::pair<Family, Family>> met;
  for (int i = 0; i < 150; ++i) {
    const PlannedTrial planned = plan.next(below(contract, 1e6));
    const auto& families = planned.trial.families;
    if (families.size() == 2 && is_nonfinite(families.at("x")) && is_nonfinite(families.at("z")))
      met.insert({families.at("x"), families.at("z")});
    EXPECT_TRUE(met.empty() || planned.needed || met.size() == 3);
  }
  EXPECT_EQ(met, (std::set<std::pair<Family, Family>>{{Family::InfElement, Family::InfElement},
                                                      {Family::InfElement, Family::NegInfElement},
                                                      {Family::NegInfElement, Family::NegInfElement}}));
}

// Where a maximum starts, or what a softmax divides by, shows where all of a row is infinite. A sum of products tells nothing
// there that one infinity does not.
TEST(Plan, MakesWholeRowsInfiniteWhereNumbersAreOrdered) {
  const auto parts_of = [](const std::string& formula) {
    std::string text = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y"]
[dims]
N = { min = 1, max = 5000 }
M = { min = 1, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["N", "M"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = ")" + formula +
                       "\"\n";
    const auto contract = contract::parse(text);
    EXPECT_TRUE(contract) << contract.error().text();
    std::set<Family> found;
    for (const PlannedTrial& planned : first_trials(*contract, 1, 150))
      for (const auto& [name, family] : planned.trial.families)
        if (family == Family::InfPart || family == Family::NegInfPart || family == Family::AllInf ||
            family == Family::AllNegInf)
          found.insert(family);
    return found.size();
  };
  EXPECT_EQ(parts_of("y[i] = max[j](x[i, j])"), 4u);
  EXPECT_EQ(parts_of("y[i] max= x[i, j]"), 4u);
  EXPECT_EQ(parts_of("y[i] = log(sum[j](exp(x[i, j])))"), 4u);
  EXPECT_EQ(parts_of("y[i] = sum[j](x[i, j] * x[i, j])"), 0u);
  EXPECT_EQ(parts_of("y[i] = max(x[i, 0], 1)"), 0u) << "one element";
}

TEST(Plan, MakesAllProductsFarBelowZeroWhereTheFormulaTakesExtremes) {
  const auto trials_of = [](const std::string& formula) {
    const std::string text = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "z", "y"]
[dims]
N = { min = 1, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["N"]
values = "activations"
[tensors.z]
dtype = "f32"
shape = ["N"]
values = "positive"
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = ")" + formula + "\"\n";
    const auto contract = contract::parse(text);
    EXPECT_TRUE(contract) << contract.error().text();
    std::set<Family> found;
    for (const PlannedTrial& planned : first_trials(*contract, 1, 150)) {
      const auto& families = planned.trial.families;
      if (!families.contains("x") || !families.contains("z")) continue;
      const Family x = families.at("x");
      const bool is_below = x == Family::Negative || x == Family::FarBelow;
      if (is_below && families.at("z") == Family::Natural && planned.needed) found.insert(x);
    }
    return found.size();
  };
  EXPECT_EQ(trials_of("y[i] = max[j](x[j] * z[j] + i)"), 2u);
  EXPECT_EQ(trials_of("y[i] = sum[j](x[j] * z[j] + i)"), 0u);
}

// log(1 + exp(-x)) loses what log1p keeps where x is large, which shows where all targets of a row are 1.
TEST(Plan, HasRowsOfLargeNumbersBesideRowsAtTheEndsOfARange) {
  const auto large_beside_one = [](const std::string& formula) {
    const std::string text = R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["x", "t", "y"]
[dims]
R = { min = 1, max = 5000 }
C = { min = 8, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
[tensors.t]
dtype = "f32"
shape = ["R", "C"]
values = "real(0, 1)"
[tensors.y]
dtype = "f32"
shape = ["R"]
role = "out"
[reference]
formula = ")toml" + formula + "\"\n";
    const auto contract = contract::parse(text);
    EXPECT_TRUE(contract) << contract.error().text();
    int rows = 0;
    Plan plan(*contract, {});
    for (PlannedTrial planned = plan.next([](const Shape&, bool) { return true; }); planned.needed;
         planned = plan.next([](const Shape&, bool) { return true; })) {
      const auto inputs = make_inputs(*contract, planned.trial);
      EXPECT_TRUE(inputs) << inputs.error().text();
      const Tensor &x = *inputs->inputs.at("x"), &t = *inputs->inputs.at("t");
      const int64_t columns = x.extents[1];
      for (int64_t r = 0; r < x.extents[0]; ++r) {
        bool all = true;
        for (int64_t at = r * columns; at < (r + 1) * columns && all; ++at)
          all = x.load(at) > 17 && x.load(at) < 80 && t.load(at) == 1;
        rows += all;
      }
    }
    return rows;
  };
  EXPECT_GE(large_beside_one("y[r] = sum[c](t[r, c] * softplus(-x[r, c]))"), 2);
  EXPECT_EQ(large_beside_one("y[r] = sum[c](t[r, c] * x[r, c])"), 0);
}

TEST(Plan, LeavesNonfiniteInputsOutWhereTheyAreIgnored) {
  const Contract contract =
      parsed("[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n", "[require]\nnonfinite = \"ignore\"\n");
  for (const PlannedTrial& planned : first_trials(contract, 1, 400)) {
    for (const auto& [name, family] : planned.trial.families) EXPECT_FALSE(is_nonfinite(family));
  }
}

TEST(Plan, GivesNanToEveryInputWhereAScalarIsZero) {
  const Contract contract = parsed(
      "[tensors.x]\ndtype = \"f32\"\nshape = [\"N\"]\n[tensors.z]\ndtype = \"f32\"\nshape = [\"N\"]\n"
      "[scalars.beta]\ndtype = \"f32\"\nvalues = [0.5, 0.0]\n"
      "[scalars.other]\ndtype = \"f32\"\nvalues = [0.5, 1.0]\n");
  std::set<std::string> seen;
  for (const PlannedTrial& planned : first_trials(contract, 1, 100))
    for (const auto& [name, family] : planned.trial.families)
      if (family == Family::NanElement && planned.needed && planned.trial.scalars.at("beta").as_double() == 0)
        seen.insert(name);
  EXPECT_EQ(seen, (std::set<std::string>{"x", "z"}));
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

TEST(Plan, HoldsNoTrialThatIsTooLargeForMemory) {
  const auto contract = contract::parse(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n"]
[dims]
n = { min = 3000000000, max = 6000000000, type = "i64" }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
)");
  ASSERT_TRUE(contract) << contract.error().text();
  Plan plan(*contract, {.samples = true});
  EXPECT_TRUE(plan.only_giants());
  EXPECT_GT(plan.left(), 0u);
  while (plan.left() > 0) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    EXPECT_TRUE(planned.trial.sampled) << to_string(planned.trial);
  }
  EXPECT_FALSE(Plan(with_input("f32", "real"), {.samples = true}).only_giants());
}

TEST(Plan, TriesEachValueOfAScalarInASmallShape) {
  const Contract contract = parsed("[tensors.x]\ndtype = \"f32\"\nshape = [\"N\", \"M\"]\n",
                                   "[scalars.k]\ndtype = \"i32\"\nvalues = [0, 1, -3, 700]\n"
                                   "[scalars.e]\ndtype = \"f32\"\nrange = [0.5, 2]\n",
                                   R"("x", "y", "N", "M", "k", "e")");
  Plan plan(contract, {});
  std::set<std::string> open;
  for (const Requirement* one : plan.requirements().open()) open.insert(one->text);
  for (const char* text : {"k = -3 in a small shape", "k = 700 in a small shape", "e = 0.5 in a small shape",
                           "e = 2 in a small shape"})
    EXPECT_TRUE(open.contains(text)) << text;
  bool found = false;
  for (int i = 0; i < 120; ++i) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    found |=
        planned.needed && planned.trial.shape.at("N") == 2 && planned.trial.scalars.at("k").as_int() == -3;
  }
  EXPECT_TRUE(found);
}

// With one dim, a size of 129 is one block.
TEST(Plan, TriesOrdersAndOverlapWithSeveralBlocks) {
  const auto contract = contract::parse(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = "y[0] = sum[i](x[i])"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  Plan plan(*contract, {});
  std::set<std::string> open;
  for (const Requirement* one : plan.requirements().open()) open.insert(one->text);
  for (const char* text :
       {"a starved block and warp, two calls at once in several blocks",
        "last blocks and warps first in several blocks", "a starved block and warp in several blocks"})
    EXPECT_TRUE(open.contains(text)) << text;
  bool found = false;
  for (int i = 0; i < 120; ++i) {
    const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
    // Ordered behind its inputs, one call would have ended before the other begins.
    found |= planned.needed && planned.trial.condition.overlapped && !planned.trial.condition.ordered &&
             planned.trial.shape.at("n") >= 10000;
  }
  EXPECT_TRUE(found);
}

// A seed of 0 with one bit changed is a power of two, which a float holds as well: it hides a kernel that rounds seeds.
TEST(Plan, RelatedCallsHaveSeedsOfManyBits) {
  const auto contract = contract::parse(R"toml(
title = "dropout"
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n", "seed"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[scalars.seed]
dtype = "u64"
range = [0, 281474976710655]
[reference]
formula = "y[i] = if random(0.5, seed) then x[i] else 0"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  int related = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed)
    for (const PlannedTrial& planned : first_trials(*contract, seed, 200)) {
      if (!planned.trial.condition.related) continue;
      ++related;
      EXPECT_NE(planned.trial.scalars.at("seed").bits, 0u) << to_string(planned.trial);
    }
  EXPECT_GT(related, 8);
}

// Vectors and tiles care how often a size divides by two; one number in 128 has exactly six twos.
TEST(Shapes, RandomSizesDivideByTwoManyTimes) {
  const Contract contract = with_input("bf16", "gradients");
  Random random(5);
  int sizes = 0, by_64 = 0;
  for (int i = 0; i < 1000; ++i)
    for (const auto& [name, size] : random_shape(contract, random, 20000)) {
      if (size < 256) continue;
      ++sizes;
      by_64 += size % 128 == 64;
    }
  EXPECT_GT(by_64 * 30, sizes) << "of " << sizes;
}

}  // namespace
}  // namespace assay::trial
