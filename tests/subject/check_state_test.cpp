// What a kernel keeps from one call to the next, and what calls at the same time share.
#include <gmock/gmock.h>

#include "check.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;

class CheckState : public CheckTest {};

// What is kept from the first call is too small for the next.
TEST_F(CheckState, AStateMadeForASmallerCallIsTooSmall) {
  const std::string kept = R"(#include <cuda_runtime.h>
__global__ void twice(const float* x, float* t, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = t[i] = 2 * x[i];
}
extern "C" void k(const float* x, float* y, int n, cudaStream_t s) {
  static float* t;
  if (!t) cudaMalloc(&t, n * sizeof(float));
  twice<<<(n + 127) / 128, 128, 0, s>>>(x, t, y, n);
}
)";
  ASSERT_EQ(check_kernel(kept, "[require]\nconcurrent = false\n"), 1) << last_.output;
  EXPECT_EQ(kind(), "stale-state");
  EXPECT_THAT(last_.output, HasSubstr("but in a later call: out-of-bounds"));
  EXPECT_THAT(last_.output, HasSubstr("after a smaller call"));
}

TEST_F(CheckState, StateFromAnEarlierCallIsStale) {
  EXPECT_EQ(check_kernel(kernel(
                "if (i < n) y[i] = x[i] * 2.0f;",
                "static int calls; if (calls++ % 2 == 0) twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);"
                "else cudaMemsetAsync(y, 0, n * sizeof(float), stream);")),
            1);
  EXPECT_EQ(kind(), "stale-state");
}

// One call in 23 of a process reads past the end, at no size that dozens of small calls have: a new process does not show it
// before those calls were made again.
TEST_F(CheckState, WhatTakesManyCallsToShowIsFound) {
  const std::string seldom = kernel("if (i < n) y[i] = x[i] * 2.0f;",
                                    "static int calls; const int one_more = ++calls % 23 == 0 && n > 300;"
                                    "twice<<<(n + 128) / 128, 128, 0, stream>>>(x, y, n + one_more);");
  EXPECT_EQ(check_kernel(seldom), 1) << last_.output;
  EXPECT_EQ(kind(), "stale-state") << last_.output;
}

// What a device saw happened, even where it never happens again.
TEST_F(CheckState, AnAccessThatWasIllegalOnceIsNoPass) {
  const std::string once = kernel("if (i < n) y[i] = x[i] * 2.0f;",
                                  "static unsigned h = time(0); h = h * 1664525u + 1013904223u;"
                                  "const int one_more = h >> 24 == 7 && n > 300;"
                                  "twice<<<(n + 128) / 128, 128, 0, stream>>>(x, y, n + one_more);");
  EXPECT_NE(check_kernel("#include <ctime>\n" + once), 0) << last_.output;
}

// Overlapping calls show it first, but it is wrong one call after another, too: the old buffers are gone.
TEST_F(CheckState, AGraphOfTheFirstCallIsNoQuestionOfConcurrency) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;",
                                "static cudaGraphExec_t execs[100001]; cudaGraphExec_t& exec = execs[n];"
                                "if (!exec) { cudaStream_t own; cudaGraph_t graph; cudaStreamCreate(&own);"
                                "cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed);"
                                "twice<<<(n + 127) / 128, 128, 0, own>>>(x, y, n);"
                                "cudaStreamEndCapture(own, &graph); cudaGraphInstantiate(&exec, graph, 0); }"
                                "cudaGraphLaunch(exec, stream);")),
            1);
  EXPECT_EQ(kind(), "stale-state") << last_.output;
  EXPECT_EQ(assay({"replay", path("report.json")}).status, 1);
}

// Both calls are right alone; what they share is seen even where the sums happen to come out right.
TEST_F(CheckState, CallsThatShareMemoryAreNotConcurrent) {
  const std::string shared = R"(
__device__ float held[1024];
__global__ void keep(const float* x, int n) {
  const int i = threadIdx.x;
  if (i < n && i < 1024) held[i] = x[i] * 2.0f;
}
__global__ void give(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i < 1024 ? held[i] : x[i] * 2.0f;
}
extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  keep<<<1, 1024, 0, stream>>>(x, n);
  give<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
)";
  EXPECT_EQ(check_kernel(shared), 1) << last_.output;
  EXPECT_EQ(report()["findings"][0]["kind"], "concurrent-launch") << last_.output;
  EXPECT_EQ(check_kernel(shared, "\n[require]\nconcurrent = false\n"), 0) << last_.output;
}

}  // namespace
}  // namespace assay::subject
