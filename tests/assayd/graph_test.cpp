// Calls that CUDA graphs make: sampled by an executable with copies.
#include "application.h"

namespace assay::assayd {
namespace {

TEST_F(MonitorTest, AGraphIsSampledByAnExecutableWithCopies) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open("scale", "every = 3\nmax_bytes = \"1MiB\"\n");
  int n = 64;
  void* args[] = {&x_, &y_, &n};
  std::vector<float> x(64, 3), y(64, 6);
  cudaMemcpy(x_, x.data(), 256, 1);
  cudaMemcpy(right_, y.data(), 256, 1);
  const auto captured = [&](bool with_copies) {
    void *graph = nullptr, *executable = nullptr;
    EXPECT_EQ(with_copies ? assay_graph_begin(watch) : 0, 0);
    EXPECT_EQ(cudaStreamBeginCapture(stream_, 0), 0);
    const uint64_t ticket = assay_before(watch, args, stream_);
    cudaMemcpyAsync(y_, right_, 256, 3, stream_);
    assay_after(watch, ticket, args, stream_);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), 0);
    if (with_copies) assay_graph_end(watch);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), 0);
    return executable;
  };
  void *plain = captured(false), *with_copies = captured(true);
  const double before = daemon.value("assay_samples_judged_total");
  for (int i = 0; i < 40; ++i) {
    if (i == 20) {  // the kernel computes something else from now on
      y[5] = 7;
      cudaStreamSynchronize(stream_);
      cudaMemcpy(right_, y.data(), 256, 1);
    }
    ASSERT_EQ(assay_graph_launch(watch, plain, with_copies, stream_), 0);
    cudaStreamSynchronize(stream_);
    if (i == 19) {
      ASSERT_EQ(assay_flush(watch, 3000), 0);
      EXPECT_GT(daemon.value("assay_samples_judged_total"), before + 1);
      EXPECT_EQ(daemon.value("assay_alarm"), 0);
    }
    assay_flush(watch, 3000);
  }
  EXPECT_TRUE(daemon.becomes("assay_alarm", 1));
  EXPECT_LT(daemon.value("assay_samples_judged_total"), before + 35);  // most launches are without copies
}

// Two kernels in one graph, one of them called three times: all four calls are sampled in the same launches.
TEST_F(MonitorTest, SeveralCallsInOneGraphAreSampledTogether) {
  RunningDaemon daemon(folder_.path());
  const char* monitor = "every = 2\nmax_bytes = \"120MiB\"\n";  // the ring has two places then
  assay_watch *one = open("first", monitor), *other = open("second", monitor);
  int n = 64;
  void* args[] = {&x_, &y_, &n};
  std::vector<float> x(64, 3), y(64, 6);
  cudaMemcpy(x_, x.data(), 256, 1);
  cudaMemcpy(right_, y.data(), 256, 1);
  void* wrong = nullptr;
  cudaMalloc(&wrong, kBytes);
  cudaMemcpy(wrong, y.data(), 256, 1);
  const auto call = [&](assay_watch* watch, void* result) {
    const uint64_t ticket = assay_before(watch, args, stream_);
    cudaMemcpyAsync(y_, result, 256, 3, stream_);
    assay_after(watch, ticket, args, stream_);
  };
  const auto captured = [&](bool with_copies) {
    void *graph = nullptr, *executable = nullptr;
    EXPECT_EQ(with_copies ? assay_graph_begin(one) + assay_graph_begin(other) : 0, 0);
    EXPECT_EQ(cudaStreamBeginCapture(stream_, 0), 0);
    call(one, right_);
    call(other, right_);
    call(one, right_);
    call(one, wrong);  // the third call of the first kernel is at fault, later
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), 0);
    if (with_copies) assay_graph_end(one);
    if (with_copies) assay_graph_end(other);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), 0);
    return executable;
  };
  EXPECT_EQ(assay_graph_reserve(one, 0), -1);
  ASSERT_EQ(assay_graph_reserve(one, 3), 0);
  void *plain = captured(false), *with_copies = captured(true);
  assay_watch* both[] = {one, other};
  const uint64_t calls = count(one).calls, samples = count(one).samples, others = count(other).samples;
  for (int i = 0; i < 30; ++i) {
    if (i == 15) {
      ASSERT_EQ(assay_flush(one, 3000), 0);
      EXPECT_EQ(daemon.value("assay_alarm"), 0);
      y[5] = 7;
      cudaMemcpy(wrong, y.data(), 256, 1);
    }
    ASSERT_EQ(assay_graph_launch_all(both, 2, plain, with_copies, stream_), 0);
    cudaStreamSynchronize(stream_);
    assay_flush(one, 3000);
    assay_flush(other, 3000);
  }
  EXPECT_TRUE(daemon.becomes("assay_alarm", 1, "kernel=\"first\""));
  EXPECT_EQ(daemon.value("assay_alarm", "kernel=\"second\""), 0);
  EXPECT_EQ(count(one).calls - calls, 90u);  // three a launch
  const uint64_t launches = count(other).samples - others;
  EXPECT_GT(launches, 4u);
  EXPECT_LT(launches, 26u);
  EXPECT_EQ(count(one).samples - samples, 3 * launches);
  EXPECT_EQ(daemon.value("assay_samples_dropped_total", "reason=\"ring_full\""), 0);
  for (assay_watch* watch : both) assay_graph_close(watch, with_copies);
}

// A larger call than the one before, but one for which the eager staging area is large enough.
TEST_F(MonitorTest, AGraphHasRoomForTheLargestCallThatWasMade) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open("scale", "every = 1\nmax_bytes = \"1MiB\"\n");
  call(watch, 1000);
  ASSERT_EQ(assay_flush(watch, 3000), 0);
  int n = 1000;
  void* args[] = {&x_, &y_, &n};
  void *graph = nullptr, *executable = nullptr;
  ASSERT_EQ(assay_graph_begin(watch), 0);
  cudaStreamBeginCapture(stream_, 0);
  const uint64_t ticket = assay_before(watch, args, stream_);
  cudaMemcpyAsync(y_, right_, 4000, 3, stream_);
  assay_after(watch, ticket, args, stream_);
  cudaStreamEndCapture(stream_, &graph);
  assay_graph_end(watch);
  cudaGraphInstantiate(&executable, graph, 0);
  const double before = daemon.value("assay_samples_judged_total");
  ASSERT_EQ(assay_graph_launch(watch, executable, executable, stream_), 0);
  cudaStreamSynchronize(stream_);
  ASSERT_EQ(assay_flush(watch, 3000), 0);
  EXPECT_TRUE(daemon.becomes("assay_samples_judged_total", before + 1));
  EXPECT_EQ(daemon.value("assay_samples_dropped_total", "reason=\"capturing\""), 0);
}

// In the mode shadow, the executable with copies also calls the trusted kernel; the plain one does not.
TEST_F(MonitorTest, AGraphCallsTheTrustedKernelInSampledLaunches) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open("scale", "every = 3\nmax_bytes = \"1MiB\"\n");
  ASSERT_EQ(assay_mode(watch, ASSAY_SHADOW), 0);
  int n = 64;
  void* args[] = {&x_, &y_, &n};
  std::vector<float> x(64, 3), wrong(64, 5), right(64, 6);
  cudaMemcpy(x_, x.data(), 256, 1);
  cudaMemcpy(right_, right.data(), 256, 1);
  void* wrong_results = nullptr;
  cudaMalloc(&wrong_results, kBytes);
  cudaMemcpy(wrong_results, wrong.data(), 256, 1);
  int trusted_calls = 0;
  const auto captured = [&](bool with_copies) {
    void *graph = nullptr, *executable = nullptr;
    EXPECT_EQ(with_copies ? assay_graph_begin(watch) : 0, 0);
    EXPECT_EQ(cudaStreamBeginCapture(stream_, 0), 0);
    const uint64_t ticket = assay_before(watch, args, stream_);
    cudaMemcpyAsync(y_, wrong_results, 256, 3, stream_);
    void* to = y_;
    void* others[] = {&x_, &to, &n};
    if (assay_shadow(watch, ticket, others, stream_) == 1) {
      ++trusted_calls;
      EXPECT_NE(to, y_);
      cudaMemcpyAsync(to, right_, 256, 3, stream_);
    }
    assay_after(watch, ticket, args, stream_);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), 0);
    if (with_copies) assay_graph_end(watch);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), 0);
    return executable;
  };
  void* plain = captured(false);
  EXPECT_EQ(trusted_calls, 0);
  void* with_copies = captured(true);
  EXPECT_EQ(trusted_calls, 1);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(assay_graph_launch(watch, plain, with_copies, stream_), 0);
    cudaStreamSynchronize(stream_);
    ASSERT_EQ(assay_flush(watch, 3000), 0);
  }
  EXPECT_TRUE(daemon.becomes("assay_violations_total", 64));
  EXPECT_EQ(daemon.value("assay_trusted_violations_total"), 0);
  const std::vector<float> zeros(64, 0);  // now the trusted kernel is at fault, too
  cudaMemcpy(right_, zeros.data(), 256, 1);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(assay_graph_launch(watch, plain, with_copies, stream_), 0);
    cudaStreamSynchronize(stream_);
    ASSERT_EQ(assay_flush(watch, 3000), 0);
  }
  EXPECT_TRUE(daemon.becomes("assay_trusted_violations_total", 64));
}

// A call for which no memory was reserved is counted as lost whenever its launch is sampled.
TEST_F(MonitorTest, CallsInAGraphThatWereNotReservedAreCounted) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open("scale", "every = 1\nmax_bytes = \"1MiB\"\n");
  int n = 64;
  void* args[] = {&x_, &y_, &n};
  void *graph = nullptr, *executable = nullptr;
  ASSERT_EQ(assay_graph_begin(watch), 0);
  EXPECT_EQ(assay_graph_begin(watch), -1);  // one at a time
  cudaStreamBeginCapture(stream_, 0);
  for (int i = 0; i < 2; ++i) {
    const uint64_t ticket = assay_before(watch, args, stream_);
    cudaMemcpyAsync(y_, right_, 256, 3, stream_);
    assay_after(watch, ticket, args, stream_);
  }
  cudaStreamEndCapture(stream_, &graph);
  assay_graph_end(watch);
  cudaGraphInstantiate(&executable, graph, 0);
  const double before = daemon.value("assay_samples_dropped_total", "reason=\"capturing\"");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(assay_graph_launch(watch, executable, executable, stream_), 0);
    cudaStreamSynchronize(stream_);
    assay_flush(watch, 3000);
  }
  EXPECT_TRUE(daemon.becomes("assay_samples_dropped_total", before + 5, "reason=\"capturing\""));
}

// Two graphs of one kernel, as for two batch sizes, each with memory of its own.
TEST_F(MonitorTest, AKernelInTwoGraphs) {
  RunningDaemon daemon(folder_.path());
  assay_watch* watch = open("scale", "every = 1\nmax_bytes = \"1MiB\"\n");
  std::vector<float> x(64, 3), y(64, 6);
  cudaMemcpy(x_, x.data(), 256, 1);
  cudaMemcpy(right_, y.data(), 256, 1);
  std::vector<void*> executables;
  for (int n : {64, 32}) {
    void* args[] = {&x_, &y_, &n};
    void *graph = nullptr, *executable = nullptr;
    ASSERT_EQ(assay_graph_begin(watch), 0);
    cudaStreamBeginCapture(stream_, 0);
    const uint64_t ticket = assay_before(watch, args, stream_);
    cudaMemcpyAsync(y_, right_, static_cast<size_t>(4 * n), 3, stream_);
    assay_after(watch, ticket, args, stream_);
    cudaStreamEndCapture(stream_, &graph);
    assay_graph_end(watch);
    cudaGraphInstantiate(&executable, graph, 0);
    assay_graph_bind(watch, executable);
    executables.push_back(executable);
  }
  const double before = daemon.value("assay_elements_judged_total");
  for (void* executable : executables) {
    ASSERT_EQ(assay_graph_launch(watch, executable, executable, stream_), 0);
    cudaStreamSynchronize(stream_);
    ASSERT_EQ(assay_flush(watch, 3000), 0);
  }
  EXPECT_TRUE(daemon.becomes("assay_elements_judged_total", before + 96));
  EXPECT_EQ(daemon.value("assay_elements_judged_total"), before + 96);
  EXPECT_EQ(daemon.value("assay_alarm"), 0);
  assay_graph_close(watch, executables[0]);
  ASSERT_EQ(assay_graph_launch(watch, executables[1], executables[1], stream_), 0);
  cudaStreamSynchronize(stream_);
  ASSERT_EQ(assay_flush(watch, 3000), 0);
  EXPECT_TRUE(daemon.becomes("assay_elements_judged_total", before + 128));
}

}  // namespace
}  // namespace assay::assayd
