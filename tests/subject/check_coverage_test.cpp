// What a pass requires: enough trials, a share of the plan, the sizes that the code names.
#include <gmock/gmock.h>

#include "check.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;

class CheckCoverage : public CheckTest {};

// A pass after a handful of trials would say nothing.
TEST_F(CheckCoverage, TooFewTrialsAreInconclusiveAndSayWhatIsMissing) {
  const std::string right = kernel("if (i < n) y[i] = x[i] * 2.0f;");
  EXPECT_EQ(check_kernel(right, "", "0.02"), 3);
  EXPECT_THAT(last_.output, HasSubstr("trials that a pass requires: "));
  EXPECT_THAT(last_.output, HasSubstr("Try --budget "));
  const json required = report()["coverage"]["required"];
  EXPECT_LT(required["met"], required["of"]);
  EXPECT_FALSE(required["missing"].empty());
  // A wrong kernel fails whatever was tried.
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 3.0f;"), "", "0.02"), 1);
}

TEST_F(CheckCoverage, APassMayAskForAShareOfThePlan) {
  ASSERT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;"), "", "3"), 0) << last_.output;
  const json coverage = report()["coverage"];
  EXPECT_EQ(coverage["required"]["met"], coverage["required"]["of"]);
  EXPECT_TRUE(coverage["required"]["missing"].empty());
  EXPECT_EQ(coverage["largest"]["promised_elements"], 200000);
  EXPECT_EQ(assay({"check", path("k.toml"), "--budget", "3", "--min-coverage", "10%"}).status, 0);
  const CommandResult thin = assay({"check", path("k.toml"), "--budget", "0.3", "--min-coverage", "1.0"});
  EXPECT_EQ(thin.status, 3) << thin.output;
  EXPECT_THAT(thin.output, HasSubstr("--budget"));
  for (const char* wrong : {"x", "120%", "-1", "0.5x"})
    EXPECT_EQ(assay({"check", path("k.toml"), "--min-coverage", wrong}).status, 2) << wrong;
}

// Wrong for one size only, which its own code names: on the host, in device code, as a product.
TEST_F(CheckCoverage, SizesThatTheCodeNamesAreTried) {
  for (const char* host : {"if (n == 54321) n -= 1;", "switch (n) { case 7 * 1111: n -= 1; }"}) {
    const std::string wrong =
        kernel("if (i < n) y[i] = x[i] * 2.0f;",
               std::string(host) + " twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);");
    EXPECT_EQ(check_kernel(wrong), 1) << host << last_.output;
    EXPECT_EQ(kind(), "unwritten-output");
  }
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * (n % 1234 == 765 && n > 9999 ? 3.0f : 2.0f);")), 1)
      << last_.output;
}

// However early the time ends: what the code singles out was tried, or nothing is said.
TEST_F(CheckCoverage, APassWaitsForTheSizesThatTheCodeNames) {
  for (const char* budget : {"0.01", "0.3"}) {
    EXPECT_NE(check_kernel(kernel("if (i < n) y[i] = x[i] * (n == 54321 ? 3.0f : 2.0f);"), "", budget), 0)
        << budget;
    EXPECT_NE(check_kernel(kernel("if (i < n) y[i] = x[i] * (n % 1234 == 765 && n > 9999 ? 3.0f : 2.0f);"),
                           "", budget),
              0)
        << budget;
  }
}

}  // namespace
}  // namespace assay::subject
