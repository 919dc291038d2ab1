// Shapes at the corners of a promise, and their inputs.
#include "trial/giant.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "trial/generated_inputs.h"
#include "trial/plan.h"

namespace assay::trial {
namespace {

using contract::Contract;
using contract::Shape;

Contract giant(const std::string& dims, const std::string& shape, const std::string& indices) {
  auto contract = contract::parse(fmt::format(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y"]
[dims]
{}
[tensors.x]
dtype = "f32"
shape = {}
[tensors.y]
dtype = "bf16"
shape = {}
role = "out"
[reference]
formula = "y{} = x{}"
)toml",
                                              dims, shape, shape, indices, indices));
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

Contract vectors(int64_t most) {
  return giant(fmt::format("n = {{ min = 1, max = {}, type = \"i64\" }}", most), R"(["n"])", "[i]");
}
Contract rows() {
  return giant("r = { min = 1, max = 1048576 }\nc = { min = 1, max = 65536, multiple_of = 1 }",
               R"(["r", "c"])", "[i, j]");
}

TEST(GiantShapes, LieBelowAtAndAboveWhereAnIndexEnds) {
  const std::vector<Shape> shapes = giant_shapes(vectors(int64_t{1} << 40), 1e6, 40e9);
  const int64_t end31 = int64_t{1} << 31, end32 = int64_t{1} << 32;
  for (const int64_t n : {end31 - 1, end31, end32 - 1, end32})
    EXPECT_THAT(shapes, ::testing::Contains(Shape{{"n", n}}));
  const auto beyond = [&](int64_t end) {
    return std::any_of(shapes.begin(), shapes.end(),
                       [&](const Shape& s) { return s.at("n") > end && s.at("n") < end + (1 << 21); });
  };
  EXPECT_TRUE(beyond(end31) && beyond(end32));
  for (const Shape& shape : shapes) EXPECT_LE(6 * shape.at("n"), 40'000'000'000);
}

TEST(GiantShapes, HaveEachDimAtItsLargestAndProductsBeyond32Bits) {
  const std::vector<Shape> shapes = giant_shapes(rows(), 1e5, 40e9);
  EXPECT_THAT(shapes, ::testing::Contains(Shape{{"r", 1048576}, {"c", 1}}));
  const auto product = [](const Shape& s) { return s.at("r") * s.at("c"); };
  EXPECT_TRUE(std::any_of(shapes.begin(), shapes.end(),
                          [&](const Shape& s) { return product(s) > int64_t{1} << 32; }));
  EXPECT_TRUE(std::any_of(shapes.begin(), shapes.end(),
                          [&](const Shape& s) { return product(s) == int64_t{1} << 31; }));
}

// Where the length of a row divides 2^32, an offset that wraps is that of another row, and what is written there is right.
TEST(GiantShapes, HaveRowsBeyondAnEndThatDoNotDivideIt) {
  const std::vector<Shape> shapes = giant_shapes(rows(), 1e5, 40e9);
  for (const int64_t end : {int64_t{1} << 31, int64_t{1} << 32})
    EXPECT_TRUE(std::any_of(shapes.begin(), shapes.end(), [&](const Shape& s) {
      const int64_t c = s.at("c"), count = s.at("r") * c;
      return count > end && count < end + (1 << 21) && end % c != 0 && c % 8 == 0 && c >= 64;
    })) << end;
}

TEST(GiantShapes, AreNoneWhereThePromiseIsSmall) {
  EXPECT_TRUE(giant_shapes(vectors(1 << 20), 0x1p22, 40e9).empty());
}

TEST(TellingShares, AreWhereAnIndexInElementsOrBytesEnds) {
  const Contract contract = vectors(int64_t{1} << 40);
  const double count = 0x1p33;
  const std::vector<double> shares = telling_shares(contract, {{"n", int64_t{1} << 33}});
  for (const double element : {0x1p31, 0x1p32, 0x1p30, 0x1p29, 0x1p15, 0x1p16})  // 2^29: byte 2^31 of x
    EXPECT_THAT(shares, ::testing::Contains(element / count));
}

TEST(Plan, TriesGiantShapesWhereTheDeviceCanSample) {
  const Contract contract = vectors(int64_t{1} << 33);
  const auto sampled = [&](bool samples) {
    Plan plan(contract, {.samples = samples});
    int count = 0;
    const std::size_t planned = plan.planned();
    for (std::size_t i = 0; i < planned; ++i) {
      const PlannedTrial next = plan.next([](const Shape&, bool) { return true; });
      if (!next.trial.sampled) continue;
      ++count;
      EXPECT_TRUE(next.needed);
      EXPECT_EQ(next.trial.condition.gpu, 0);
    }
    return count;
  };
  EXPECT_GT(sampled(true), 4);
  EXPECT_EQ(sampled(false), 0);
}

// A pass is about all that was promised, so it waits for these; unless a sample tells nothing of the kernel.
TEST(Requirements, HoldTheGiantShapesUntilTheyAreSampledOrCannotBe) {
  const Contract contract = vectors(int64_t{1} << 33);
  Plan plan(contract, {.samples = true});
  std::vector<Trial> giants;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const PlannedTrial next = plan.next([](const Shape&, bool) { return true; });
    if (next.trial.sampled)
      giants.push_back(next.trial);
    else
      plan.judged(next.trial);
  }
  const auto count = [&] { return plan.requirements().count(RequirementGroup::Giants); };
  ASSERT_GT(giants.size(), 4u);
  EXPECT_EQ(count().met, 0u);
  EXPECT_EQ(count().of, giants.size());
  EXPECT_EQ(plan.requirements().open().size(), giants.size()) << "the others are met";
  plan.judged(giants[0]);
  EXPECT_EQ(count().met, 1u);
  plan.waive_sampled(giants[1]);
  EXPECT_EQ(count().of, giants.size() - 1);
  for (const Trial& giant : giants) plan.judged(giant);
  EXPECT_TRUE(plan.requirements().open().empty());
}

// What counts in 16 bits never ends at giant shapes, or starts anew: no block tells, but a whole grid beyond 2^16 does.
TEST(Requirements, WantADimBeyond16BitsWhereASampleTellsNothing) {
  const Contract contract = vectors(int64_t{1} << 33);
  Plan plan(contract, {.samples = true});
  const auto is_required = [&] {
    const auto open = plan.requirements().open();
    return std::any_of(open.begin(), open.end(),
                       [](const Requirement* r) { return r->text == "n >= 65613"; });
  };
  PlannedTrial next;
  while (!next.trial.sampled) next = plan.next([](const Shape&, bool) { return true; });
  EXPECT_FALSE(is_required());
  plan.waive_sampled(next.trial);
  EXPECT_TRUE(is_required());
  next = plan.next([](const Shape&, bool) { return true; });
  EXPECT_EQ(next.trial.shape.at("n"), 65613);
  EXPECT_TRUE(next.needed && !next.brief);
  plan.judged(next.trial);
  EXPECT_FALSE(is_required());
}

TEST(Requirements, AreNotMetByASampleOfTheBlocks) {
  const Contract contract = vectors(int64_t{1} << 33);
  Plan plan(contract, {.samples = true});
  const auto corners = [&] { return plan.requirements().count(RequirementGroup::Corners).met; };
  Trial whole{.shape = {{"n", int64_t{1} << 33}}};
  Trial sampled = whole;
  sampled.sampled = true;
  plan.judged(sampled);
  EXPECT_EQ(corners(), 0u);
  plan.judged(whole);
  EXPECT_GT(corners(), 0u);
}

TEST(GeneratedInputs, AreWhatTheDeviceMakes) {
  const Contract contract = vectors(int64_t{1} << 40);
  Trial trial;
  trial.shape = {{"n", int64_t{1} << 33}};
  trial.sampled = true;
  auto inputs = GeneratedInputs::make(contract, trial);
  ASSERT_TRUE(inputs) << inputs.error().text();
  const auto values = generated_values(*contract.inputs()[0], trial);
  ASSERT_TRUE(values);
  const std::vector<int64_t> elements = {0, 77, int64_t{1} << 31, (int64_t{1} << 33) - 1};
  ASSERT_TRUE(inputs->make_read("x", elements));
  for (const int64_t element : elements) {
    float made = 0;
    make_values(*values, static_cast<uint64_t>(element), 1, reinterpret_cast<std::byte*>(&made));
    EXPECT_EQ(inputs->bindings().inputs.at("x")->load(element), static_cast<double>(made));
  }
}

TEST(GeneratedInputs, AreNotMadeWithoutEnd) {
  const Contract contract = vectors(int64_t{1} << 40);
  Trial trial;
  trial.shape = {{"n", int64_t{1} << 32}};
  auto inputs = GeneratedInputs::make(contract, trial);
  ASSERT_TRUE(inputs);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < (1 << 19); ++i) elements.push_back(i << 13);
  EXPECT_FALSE(inputs->make_read("x", elements));
}

}  // namespace
}  // namespace assay::trial
