#include "assayd/shape_class.h"

#include <gtest/gtest.h>

#include "application.h"

namespace assay::assayd {
namespace {

contract::Contract contract_with(const std::string& dims) {
  auto contract = contract::parse(
      "[kernel]\nsource = \"k.ptx\"\nglobal = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"x\", \"y\"]\n"
      "[dims]\n" +
          dims +
          "[tensors.x]\ndtype = \"f32\"\nshape = [\"t\", \"d\"]\n"
          "[tensors.y]\ndtype = \"f32\"\nshape = [\"t\", \"d\"]\nrole = \"out\"\n"
          "[reference]\nformula = \"y[i, j] = x[i, j]\"\n",
      "k.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

TEST(ShapeClass, SizesAreRoundedUpToPowersOfTwo) {
  const contract::Contract contract =
      contract_with("t = { min = 0, max = 4096 }\nd = { min = 1, max = 4096 }\n");
  EXPECT_EQ(shape_class(contract, {{"t", 0}, {"d", 1}}), "t=0,d=1");
  EXPECT_EQ(shape_class(contract, {{"t", 2}, {"d", 3}}), "t<=2,d<=4");
  EXPECT_EQ(shape_class(contract, {{"t", 64}, {"d", 65}}), "t<=64,d<=128");
}

TEST(ShapeClass, ConstantsAreLeftOut) {
  const contract::Contract one = contract_with("t = { min = 1, max = 4096 }\nd = 128\n");
  EXPECT_EQ(shape_class(one, {{"t", 7}, {"d", 128}}), "t<=8");
  const contract::Contract none = contract_with("t = 64\nd = 128\n");
  EXPECT_EQ(shape_class(none, {{"t", 64}, {"d", 128}}), "fixed");
}

// Prometheus keeps a series for each: however many shapes there are, the classes are few, and no sample is left out.
TEST(ShapeClass, ClassesBeyondTheFirstAreOne) {
  ByShapeClass<int> counts;
  for (int i = 0; i < 100; ++i) ++counts.at("n<=" + std::to_string(i));
  ++counts.at("n<=3");
  ++counts.at(kUnknownShape);
  EXPECT_EQ(counts.all().size(), kMostShapeClasses + 2);
  EXPECT_EQ(counts.all().at("n<=3"), 2);
  EXPECT_EQ(counts.all().at(kOtherShapes), 100 - static_cast<int>(kMostShapeClasses));
  EXPECT_EQ(counts.all().at(kUnknownShape), 1);
}

TEST_F(MonitorTest, MetricsSayAtWhichShapesAKernelIsWrong) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open();
  for (int i = 0; i < 3; ++i) call(watch, 50);
  call(watch, 20, 1.0f);  // smaller than those of before: there is memory for its copy
  ASSERT_EQ(assay_flush(watch, 3000), 0);
  ASSERT_TRUE(daemon.becomes("assay_violations_total", 1));
  EXPECT_EQ(daemon.value("assay_violations_total", "shape=\"n<=32\",kind=\"bound\""), 1);
  EXPECT_EQ(daemon.value("assay_violations_total", "shape=\"n<=64\""), 0);
  EXPECT_EQ(daemon.value("assay_samples_judged_total", "shape=\"n<=32\""), 1);
  EXPECT_GE(daemon.value("assay_samples_judged_total", "shape=\"n<=64\""), 1);
  EXPECT_EQ(daemon.value("assay_error_over_budget_count", "shape=\"n<=32\""), 20);
  EXPECT_EQ(daemon.value("assay_elements_judged_total"), daemon.value("assay_error_over_budget_count"));
}

}  // namespace
}  // namespace assay::assayd
