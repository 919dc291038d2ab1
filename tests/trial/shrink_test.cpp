#include "trial/shrink.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support.h"
#include "trial/shapes.h"

namespace assay::trial {
namespace {

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

// The inputs of a sample of the blocks are made as they are read, and come by no work on the stream.
TEST(Shrink, LeavesASampleOfTheBlocksUnordered) {
  const Contract contract = with_input("bf16", "gradients");
  Trial trial;
  trial.shape = {{"N", 100}, {"M", 64}};
  trial.sampled = true;
  trial.condition = {.schedule = 5, .ordered = false};
  const Shrunk shrunk = shrink(contract, trial, [](const Trial&) { return true; });
  EXPECT_EQ(shrunk.trial.condition.schedule, 0u);
  EXPECT_FALSE(shrunk.trial.condition.ordered);
  trial.sampled = false;
  EXPECT_TRUE(shrink(contract, trial, [](const Trial&) { return true; }).trial.condition.ordered);
}

// Of the sizes of segments the one that matters, and none where none does.
TEST(Shrink, KeepsTheSizeThatMatters) {
  const Contract contract = with_input("i32", "integers(0, N)", R"(["M"])");
  Trial trial;
  trial.shape = {{"N", 300}, {"M", 96}};
  trial.runs["x"] = {255, 256, 257};
  const auto holds_257 = [&](const Trial& t) {
    const auto found = t.runs.find("x");
    return found != t.runs.end() && t.shape.at("N") >= 257 &&
           std::find(found->second.begin(), found->second.end(), 257) != found->second.end();
  };
  const Shrunk shrunk = shrink(contract, trial, holds_257);
  EXPECT_EQ(shrunk.trial.runs.at("x"), std::vector<int64_t>{257});
  EXPECT_EQ(shrunk.trial.shape.at("M"), 8);
  EXPECT_TRUE(shrink(contract, trial, [](const Trial&) { return true; }).trial.runs.empty());
}

}  // namespace
}  // namespace assay::trial
