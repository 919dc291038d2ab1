#include "trial/scalars.h"

#include <gtest/gtest.h>

namespace assay::trial {
namespace {

TEST(OtherScalars, AreLegalAndOther) {
  auto contract = contract::parse(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["y", "a", "b", "c", "d"]
[tensors.y]
dtype = "f32"
shape = [4]
role = "out"
[scalars.a]
dtype = "f32"
values = [0.1, -1.0, 0.5]
[scalars.b]
dtype = "i32"
value = 7
[scalars.c]
dtype = "f32"
range = [2, 10]
[scalars.d]
dtype = "i32"
values = [1, 2]
[reference]
formula = "y[i] = a + b + c + d"
)");
  ASSERT_TRUE(contract) << contract.error().text();
  std::map<std::string, contract::Scalar, std::less<>> scalars;
  const double values[] = {0.1, 7, 3, 2};
  for (std::size_t i = 0; i < contract->scalars.size(); ++i)
    scalars[contract->scalars[i].name] = scalar_of(contract->scalars[i], values[i]);
  const auto others = other_scalars(*contract, scalars);
  EXPECT_EQ(others.at("a").as_double(), -1);  // the float nearest to 0.1 is the first
  EXPECT_EQ(others.at("b").as_double(), 7);
  EXPECT_EQ(others.at("c").as_double(), 10);
  EXPECT_EQ(others.at("d").as_double(), 1);
}

}  // namespace
}  // namespace assay::trial
