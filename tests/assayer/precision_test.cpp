// What the shadow saw against what the judge said.
#include "assayer/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::assayer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Finding narrow_sum() {
  Finding finding;
  finding.kind = "low-precision-accumulation";
  finding.message = "out: 10 of 25 elements lie outside, as if the running sum were kept in f16: out[3] is 1";
  finding.evidence = {{"output", "out"},
                      {"worst", {{"stored", 1360.0}, {"exact", 1850.0}}},
                      {"diagnosis", {{"defect", "f16-accumulator"}}}};
  return finding;
}

// An output whose error by rounding is far too small to explain a quarter of its value.
Json profile(double introduced_max) {
  const Json place = {{"file", "k.cu"}, {"line", 7}};
  Json line = place;
  line["introduced_max"] = introduced_max;
  line["share"] = 1.0;
  Json part = place;
  part["share"] = 1.0;
  return {{"lines", {line}}, {"outputs", {{{"name", "out"}, {"relative", 1e-5}, {"lines", {part}}}}}};
}

std::string kind_after(const contract::Contract& contract, double introduced_max) {
  Finding finding = narrow_sum();
  accuse(contract, finding, profile(introduced_max));
  return finding.kind;
}

TEST(Accuse, NoSumIsNarrowWhereNothingNarrowWasSeen) {
  contract::Contract contract;
  Finding finding = narrow_sum();
  accuse(contract, finding, profile(0x1p-24));
  EXPECT_EQ(finding.kind, "wrong-result");
  EXPECT_THAT(finding.message, Not(HasSubstr("as if")));
  EXPECT_THAT(finding.message, HasSubstr("lie outside: out[3] is 1"));
  EXPECT_FALSE(finding.evidence.contains("diagnosis"));
}

TEST(Accuse, ANarrowSumStaysOneWhereSomethingNarrowWasSeen) {
  EXPECT_EQ(kind_after({}, 0x1p-11), "low-precision-accumulation");
}

TEST(Accuse, BesideF64AnF32SumIsNarrow) {
  contract::Contract contract;
  contract.reference.accumulate = contract::DType::f64;
  EXPECT_EQ(kind_after(contract, 0x1p-24), "low-precision-accumulation");
}

}  // namespace
}  // namespace assay::assayer
