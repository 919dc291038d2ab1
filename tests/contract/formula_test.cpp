// Formulas and integer expressions as trees.
#include "contract/formula.h"

#include <gtest/gtest.h>

#include <string>

namespace assay::contract {
namespace {

TEST(Language, TextOfAnExpressionReadsBack) {
  Result<Formula> formula =
      parse_formula("y[i] = sum[k in 0..3 | k != i](-a[k]^2 * (if b then 1 else 2.5))", {1, 1}, "");
  ASSERT_TRUE(formula) << formula.error().text();
  const std::string text = to_text(*formula->statements[0].body);
  Result<Formula> again = parse_formula("y[i] = " + text, {1, 1}, "");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(to_text(*again->statements[0].body), text);
}

TEST(Language, DeepAndLongExpressionsAreRefusedNotFatal) {
  EXPECT_FALSE(parse_formula("y = " + std::string(100000, '('), {1, 1}, ""));
  EXPECT_FALSE(parse_formula("y = " + std::string(100000, '-') + "1", {1, 1}, ""));
  std::string chain = "y = 1";
  for (int k = 0; k < 100000; ++k) chain += " + 1";
  EXPECT_FALSE(parse_formula(chain, {1, 1}, ""));
  std::string nots = "y = ";
  for (int k = 0; k < 100000; ++k) nots += "not ";
  EXPECT_FALSE(parse_formula(nots + "true", {1, 1}, ""));
  std::string powers = "y = 2";
  for (int k = 0; k < 100000; ++k) powers += "^2";
  EXPECT_FALSE(parse_formula(powers, {1, 1}, ""));
}

TEST(IntExprs, EvaluateWithFloorDivision) {
  const Shape shape = {{"T", 7}, {"D", 3}};
  const std::pair<const char*, int64_t> kCases[] = {{"T", 7},
                                                    {"T / D", 2},
                                                    {"-T / D", -3},
                                                    {"-T % D", 2},
                                                    {"ceil_div(T, D)", 3},
                                                    {"min(T, D, 1) + max(T, 9)", 10},
                                                    {"(T + 1) * D", 24},
                                                    {"2 - - 3", 5}};
  for (const auto& [text, value] : kCases) {
    Result<IntExpr> expr = IntExpr::parse(text);
    ASSERT_TRUE(expr) << text;
    EXPECT_EQ(*expr->eval(shape), value) << text;
  }
  EXPECT_FALSE(IntExpr::parse("T +"));
  EXPECT_FALSE(IntExpr::parse("T D"));
  EXPECT_FALSE(IntExpr::parse("log(T)"));
  EXPECT_FALSE(IntExpr::parse("1.5"));
  EXPECT_FALSE(IntExpr::parse("T / 0")->eval(shape));
  EXPECT_FALSE(IntExpr::parse("E")->eval(shape));
  EXPECT_FALSE(IntExpr::parse("9223372036854775807 + T")->eval(shape));
  EXPECT_EQ(IntExpr::parse("T * D + T")->dims(), (std::vector<std::string>{"D", "T"}));
}

}  // namespace
}  // namespace assay::contract
