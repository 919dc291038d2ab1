#include "trial/requirements.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "support.h"
#include "trial/families.h"
#include "trial/shapes.h"

namespace assay::trial {
namespace {

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
                           "large-mean in short sums",
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

// A path for `n > 3000 && n % 8 == 0` that goes wrong for n % 48 == 24, beside remainders that have nothing to do with it.
TEST(Thresholds, SizesMeetSeveralRemaindersAtOnce) {
  const Contract contract = two_inputs();
  PlanOptions options;
  options.constants = {{1000, 1100, 1200, 1300, 1400, 3000}, {{7, 5}, {96, 32}, {8, 0}, {48, 24}}, {}};
  Plan plan(contract, options);
  bool required = false;
  for (const Requirement* requirement : plan.requirements().open()) {
    if (requirement->group != RequirementGroup::Thresholds || !requirement->text.starts_with("N = "))
      continue;
    const int64_t n = std::stoll(requirement->text.substr(4));
    required |= n > 3000 && n % 8 == 0 && n % 48 == 24;
  }
  EXPECT_TRUE(required);
}

// `n > 1024 && n % 2 == 0`: the edges hold 1024 and 1025, and no even size beyond.
TEST(Thresholds, SizesBeyondAnOrdinaryConstantHaveTheRemainders) {
  const Contract contract = two_inputs();
  PlanOptions options;
  options.constants = {{32, 1024}, {{2, 0}}, {}};
  Plan plan(contract, options);
  std::set<std::string> required;
  for (const Requirement* requirement : plan.requirements().open())
    if (requirement->group == RequirementGroup::Thresholds) required.insert(requirement->text);
  EXPECT_TRUE(required.contains("N = 1026"));
  EXPECT_TRUE(required.contains("N = 34"));
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

// `rows * cols > 1 << 20` for short rows.
TEST(Thresholds, AProductBeyondAMillionIsRequired) {
  const auto contract = contract::parse(R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "rows", "cols"]
[dims]
rows = { min = 1, max = 65536 }
cols = { min = 1, max = 262144 }
[tensors.x]
dtype = "f32"
shape = ["rows", "cols"]
[tensors.y]
dtype = "f32"
shape = ["rows"]
role = "out"
[reference]
formula = "y[i] = sum[j](x[i, j])"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  // With few other constants, and with many that a dim may take.
  for (const std::vector<int64_t>& constants :
       {std::vector<int64_t>{1 << 20, 2048},
        std::vector<int64_t>{1 << 20, 2048, 5120, 6000, 8192, 14336, 152064}}) {
    PlanOptions options;
    options.constants.compared = constants;
    Plan plan(*contract, options);
    bool required = false;
    for (std::size_t left = plan.planned(); left > 0; --left) {
      const PlannedTrial planned = plan.next([](const Shape&, bool) { return true; });
      const int64_t rows = planned.trial.shape.at("rows"), cols = planned.trial.shape.at("cols");
      const bool passes = cols < 2048 && rows % 8 != 0 && rows * cols > 1 << 20;
      required |= planned.needed && !planned.trial.sampled && passes;
    }
    EXPECT_TRUE(required) << constants.size();
  }
}

}  // namespace
}  // namespace assay::trial
