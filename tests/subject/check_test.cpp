// `assay check` on small kernels: the kind of each mistake, and that the right ones pass.
#include "check.h"

#include <gmock/gmock.h>

namespace assay::subject {
namespace {

using ::testing::HasSubstr;

class CheckKinds : public CheckTest {};

TEST_F(CheckKinds, TheWrongExampleFailsAndTheRightOnePasses) {
  EXPECT_EQ(
      assay({"check", example("embedding_grad.toml"), "--json", path("report.json"), "--budget", "5"}).status,
      1);
  const json wrong = report();
  EXPECT_EQ(wrong["verdict"], "fail");
  EXPECT_EQ(wrong["findings"][0]["kind"], "low-precision-accumulation");
  EXPECT_THAT(wrong["findings"][0]["where"]["file"].get<std::string>(), HasSubstr("embedding_grad.cu"));
  EXPECT_EQ(wrong["findings"][0]["where"]["line"], 11);
  const CommandResult right =
      assay({"check", example("embedding_grad_right.toml"), "--json", path("report.json"), "--budget", "5"});
  EXPECT_EQ(right.status, 0) << right.output;
  EXPECT_EQ(report()["verdict"], "pass");
}

TEST_F(CheckKinds, ARightKernelPasses) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;")), 0) << last_.output;
  EXPECT_GT(report()["coverage"]["trials"].get<int>(), 20);
}

TEST_F(CheckKinds, ATailIsMissed) {
  EXPECT_EQ(check_kernel(kernel("if (i < n / 4 * 4) y[i] = x[i] * 2.0f;")), 1);
  EXPECT_EQ(kind(), "unwritten-output");
}

TEST_F(CheckKinds, AMissingGuardIsOutOfBounds) {
  EXPECT_EQ(check_kernel(kernel("y[i] = x[i] * 2.0f;")), 1);
  EXPECT_EQ(kind(), "out-of-bounds");
}

TEST_F(CheckKinds, AnInputIsClobbered) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) { y[i] = x[i] * 2.0f; const_cast<float*>(x)[i] = 0; }")), 1);
  EXPECT_EQ(kind(), "clobbered-input");
}

TEST_F(CheckKinds, WorkOnTheDefaultStreamIsNotOrdered) {
  EXPECT_EQ(
      check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;", "twice<<<(n + 127) / 128, 128>>>(x, y, n);")), 1);
  EXPECT_EQ(kind(), "stream-order");
}

// A stream of the call's own, tied to the caller's by events; wrong: on the way in only.
TEST_F(CheckKinds, ASideStreamIsJoined) {
  const std::string there =
      "cudaStream_t side; cudaEvent_t before, after;"
      "cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking); cudaEventCreate(&before); "
      "cudaEventCreate(&after);"
      "cudaEventRecord(before, stream); cudaStreamWaitEvent(side, before, 0);"
      "twice<<<(n + 127) / 128, 128, 0, side>>>(x, y, n); cudaEventRecord(after, side);";
  const std::string back = "cudaStreamWaitEvent(stream, after, 0);";
  const std::string end = "cudaStreamDestroy(side); cudaEventDestroy(before); cudaEventDestroy(after);";
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;", there + back + end)), 0) << last_.output;
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;", there + end)), 1) << last_.output;
  EXPECT_EQ(kind(), "stream-order");
}

TEST_F(CheckKinds, AFailedLaunchIsReported) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;",
                                "twice<<<(n + 127) / 128, 4096, 0, stream>>>(x, y, n);")),
            1);
  EXPECT_EQ(kind(), "launch-failure");
}

TEST_F(CheckKinds, NanHiddenByFmaxIsNonfinite) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = fmaxf(x[i], -3.0e38f) * 2.0f;")), 1);
  EXPECT_EQ(kind(), "nonfinite");
}

TEST_F(CheckKinds, NondeterminismIsReportedWhereItIsForbidden) {
  const std::string source =
      "#include <cuda_runtime.h>\n"
      "__global__ void sum(const float* x, float* y, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) atomicAdd(y, x[i]);\n}\n"
      "extern \"C\" void k(const float* x, float* y, int n, cudaStream_t stream) {\n"
      "  cudaMemsetAsync(y, 0, sizeof(float), stream);\n  sum<<<(n + 127) / 128, 128, 0, stream>>>(x, y, "
      "n);\n}\n";
  write("s.cu", source);
  write("s.toml", R"toml(
[kernel]
source = "s.cu"
entry = "k"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = "y[i] = sum[k](x[k])"
[require]
deterministic = true
)toml");
  EXPECT_EQ(assay({"check", path("s.toml"), "--json", path("report.json"), "--budget", "8"}).status, 1);
  EXPECT_EQ(kind(), "nondeterministic");
}

}  // namespace
}  // namespace assay::subject
