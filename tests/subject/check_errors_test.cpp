// Contracts and sources that cannot be used: the exit status and the message.
#include <gmock/gmock.h>

#include "check.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;

class CheckErrors : public CheckTest {};

TEST_F(CheckErrors, WhatIsMissingIsSaidInOneLine) {
  write("k.toml", R"(
[kernel]
source = "nothing.cu"
entry = "k"
args = ["y", "n"]
[dims]
n = { min = 1, max = 4 }
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 1"
)");
  CommandResult result = assay({"check", path("k.toml")});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, HasSubstr("nothing.cu"));
  // One line, and the place in the contract below it.
  EXPECT_THAT(result.output,
              ::testing::MatchesRegex(
                  ".*k.toml:[0-9]+:[0-9]+: error: [^\n]*nothing.cu[^\n]*\n[^\n]*\n *\\| *\\^~*\n"));
  write("nothing.cu", "extern \"C\" void other(float*, int) {}\n");
  result = assay({"check", path("k.toml"), "--budget", "1"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("`k` is not defined"));
}

TEST_F(CheckErrors, ArgumentsThatTheFunctionDoesNotTakeAreStatusTwo) {
  EXPECT_EQ(check_kernel("#include <cuda_runtime.h>\n// k(1, 2)\n"
                         "extern \"C\" void k(const float* x, float* y, cudaStream_t stream) {}\n"),
            2);
  EXPECT_THAT(last_.output,
              HasSubstr("k.cu:3: error: k takes 3 arguments (x, y, stream), but the contract passes 4"));
}

TEST_F(CheckErrors, AContractThatIsWrongIsStatusTwo) {
  write("bad.toml", "title = 3\n");
  EXPECT_EQ(assay({"check", path("bad.toml")}).status, 2);
  EXPECT_EQ(assay({"check", path("missing.toml")}).status, 2);
  EXPECT_EQ(assay({"check"}).status, 2);
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;") + "\n#define k other\n",
                         "\n[dims.m]\nmin = 3\nmax = 2\n"),
            2);
}

TEST_F(CheckErrors, ASourceThatDoesNotCompileIsInconclusive) {
  EXPECT_EQ(check_kernel("this is no C++\n"), 3);
  EXPECT_EQ(report()["verdict"], "inconclusive");
  EXPECT_THAT(last_.output, HasSubstr("error"));
  EXPECT_THAT(last_.output, HasSubstr("k.toml:3:10: k.cu does not compile"));
}

}  // namespace
}  // namespace assay::subject
