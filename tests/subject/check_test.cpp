// The program `assay`, from a contract to an exit status.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "folders.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class CheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
    std::string pattern = (fs::temp_directory_path() / "assay-check-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  CommandResult assay(std::vector<std::string> args) {
    args.insert(args.begin(), std::string(kBinaryFolder) + "/bin/assay");
    auto result = run_command(args, 120);
    EXPECT_TRUE(result);
    return result ? *result : CommandResult{};
  }
  json report() const { return json::parse(std::ifstream(folder_ / "report.json")); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string example(const char* name) const {
    return std::string(kSourceFolder) + "/examples/embedding_gradient/" + name;
  }
  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // A kernel of y[i] = x[i] + x[i], and its contract.
  int check_kernel(const std::string& source, const std::string& more = "", const char* budget = "3") {
    write("k.cu", source);
    write("k.toml", R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i] + x[i]"
)" + more);
    last_ = assay({"check", path("k.toml"), "--json", path("report.json"), "--budget", budget});
    return last_.status;
  }
  std::string kind() const {
    const json all = report();
    return all["findings"].empty() ? "" : all["findings"][0]["kind"].get<std::string>();
  }

  fs::path folder_;
  CommandResult last_;
};

std::string kernel(const std::string& body,
                   const std::string& host = "twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);") {
  return "#include <cuda_runtime.h>\n__global__ void twice(const float* x, float* y, int n) {\n"
         "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  " +
         body +
         "\n}\n"
         "extern \"C\" void k(const float* x, float* y, int n, cudaStream_t stream) {\n  " +
         host + "\n}\n";
}

TEST_F(CheckTest, TheWrongExampleFailsAndTheRightOnePasses) {
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

TEST_F(CheckTest, AReportCanBeReplayed) {
  ASSERT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.001f;")), 1);
  const CommandResult again = assay({"replay", path("report.json")});
  EXPECT_EQ(again.status, 1) << again.output;
  EXPECT_THAT(again.output, HasSubstr(kind()));
  // Mended, the same trial passes.
  write("k.cu", kernel("if (i < n) y[i] = x[i] * 2.0f;"));
  EXPECT_EQ(assay({"replay", path("report.json")}).status, 0);
  // Gone, the report holds it as it was.
  fs::remove(folder_ / "k.cu");
  fs::remove(folder_ / "k.toml");
  const CommandResult alone = assay({"replay", path("report.json")});
  EXPECT_EQ(alone.status, 1) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("the report's own copy"));
  EXPECT_THAT(alone.output, HasSubstr(kind()));
}

// How errors are alike shows only in many of them; that there is one shows in a few.
TEST_F(CheckTest, AFailureIsMadeSmallAndKeepsItsKind) {
  ASSERT_EQ(assay({"check", example("wrong.toml"), "--json", path("report.json")}).status, 1);
  EXPECT_EQ(kind(), "low-precision-accumulation");
  const json trial = report()["findings"][0]["evidence"]["trial"];
  EXPECT_LE(trial["shape"]["D"], 8);
  EXPECT_LE(trial["shape"]["T"], 4);
  EXPECT_LE(trial["shape"]["V"], 2);
  const CommandResult again = assay({"replay", path("report.json")});
  EXPECT_EQ(again.status, 1) << again.output;
  EXPECT_THAT(again.output, HasSubstr("low-precision-accumulation"));
}

// What is kept from the first call is too small for the next.
TEST_F(CheckTest, AStateMadeForASmallerCallIsTooSmall) {
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

TEST_F(CheckTest, ARightKernelPasses) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;")), 0) << last_.output;
  EXPECT_GT(report()["coverage"]["trials"].get<int>(), 20);
}

TEST_F(CheckTest, ATailIsMissed) {
  EXPECT_EQ(check_kernel(kernel("if (i < n / 4 * 4) y[i] = x[i] * 2.0f;")), 1);
  EXPECT_EQ(kind(), "unwritten-output");
}

TEST_F(CheckTest, AMissingGuardIsOutOfBounds) {
  EXPECT_EQ(check_kernel(kernel("y[i] = x[i] * 2.0f;")), 1);
  EXPECT_EQ(kind(), "out-of-bounds");
}

TEST_F(CheckTest, AnInputIsClobbered) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) { y[i] = x[i] * 2.0f; const_cast<float*>(x)[i] = 0; }")), 1);
  EXPECT_EQ(kind(), "clobbered-input");
}

TEST_F(CheckTest, WorkOnTheDefaultStreamIsNotOrdered) {
  EXPECT_EQ(
      check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;", "twice<<<(n + 127) / 128, 128>>>(x, y, n);")), 1);
  EXPECT_EQ(kind(), "stream-order");
}

// A stream of the call's own, tied to the caller's by events; wrong: on the way in only.
TEST_F(CheckTest, ASideStreamIsJoined) {
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

TEST_F(CheckTest, AFailedLaunchIsReported) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;",
                                "twice<<<(n + 127) / 128, 4096, 0, stream>>>(x, y, n);")),
            1);
  EXPECT_EQ(kind(), "launch-failure");
}

TEST_F(CheckTest, StateFromAnEarlierCallIsStale) {
  EXPECT_EQ(check_kernel(kernel(
                "if (i < n) y[i] = x[i] * 2.0f;",
                "static int calls; if (calls++ % 2 == 0) twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);"
                "else cudaMemsetAsync(y, 0, n * sizeof(float), stream);")),
            1);
  EXPECT_EQ(kind(), "stale-state");
}

// Overlapping calls show it first, but it is wrong one call after another, too: the old buffers are gone.
TEST_F(CheckTest, AGraphOfTheFirstCallIsNoQuestionOfConcurrency) {
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

TEST_F(CheckTest, NanHiddenByFmaxIsNonfinite) {
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = fmaxf(x[i], -3.0e38f) * 2.0f;")), 1);
  EXPECT_EQ(kind(), "nonfinite");
}

TEST_F(CheckTest, NondeterminismIsReportedWhereItIsForbidden) {
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

TEST_F(CheckTest, AGlobalFunctionNeedsNoHostCode) {
  write("g.cu",
        "__global__ void twice(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i] + x[i];\n}\n");
  write("g.toml", R"toml(
[kernel]
source = "g.cu"
global = "twice"
args = ["x", "y", "n"]
grid = ["ceil_div(n, 128)"]
block = [128]
[dims]
n = { min = 1, max = 3000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i] + x[i]"
)toml");
  const CommandResult result = assay({"check", path("g.toml"), "--budget", "2"});
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(CheckTest, APtxFileNeedsOnlyItsKernel) {
  // y[i] = a * x[i]; the guard is `setp.ge`, or not.
  const auto ptx = [](const char* compare) {
    return std::string(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 a) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [a];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  )") + compare +
           R"( %p, %r5, %r1;
  @%p bra DONE;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  mul.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
DONE:
  ret;
}
)";
  };
  const std::string contract = R"toml(
[kernel]
source = "k.ptx"
global = "scale"
args = ["x", "y", "n", "a"]
grid = ["ceil_div(n, 64)"]
block = [64]
[dims]
n = { min = 1, max = 3000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[scalars.a]
dtype = "f32"
values = [0.5, 3.0]
[reference]
formula = "y[i] = a * x[i]"
)toml";
  write("k.toml", contract);
  write("k.ptx", ptx("setp.ge.s32"));
  CommandResult result = assay({"check", path("k.toml"), "--budget", "1"});
  EXPECT_EQ(result.status, 0) << result.output;
  write("k.ptx", ptx("setp.gt.s32"));
  result = assay({"check", path("k.toml"), "--budget", "1"});
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("out-of-bounds"));
  EXPECT_THAT(result.output, HasSubstr("n=1,"));
}

// PTX does not say how many registers its machine code takes; the assembler does. 200 values are alive at once here.
TEST_F(CheckTest, RegistersOfPtxLimitTheThreadsOfABlock) {
  std::string loads, sums;
  for (int i = 0; i < 200; ++i) {
    loads += fmt::format("ld.volatile.global.f32 %f{}, [%x + {}];\n", i, 4 * i);
    sums += fmt::format("fma.rn.f32 %sum, %f{}, %f{}, %sum;\n", i, 199 - i);
  }
  write("k.ptx", fmt::format(R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry squares(.param .u64 px, .param .u64 py, .param .u32 pn) {{
  .reg .f32 %f<200>;
  .reg .f32 %sum;
  .reg .b64 %x, %y, %at;
  .reg .b32 %n, %i, %threads, %block;
  .reg .pred %p;
  ld.param.u64 %x, [px];
  ld.param.u64 %y, [py];
  ld.param.u32 %n, [pn];
  cvta.to.global.u64 %x, %x;
  cvta.to.global.u64 %y, %y;
  mov.u32 %threads, %ntid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %i, %tid.x;
  mad.lo.s32 %i, %threads, %block, %i;
  setp.ge.s32 %p, %i, %n;
  @%p bra DONE;
  mov.f32 %sum, 0f00000000;
{}{}
  mul.wide.s32 %at, %i, 4;
  add.s64 %y, %y, %at;
  st.global.f32 [%y], %sum;
DONE:
  ret;
}}
)",
                             loads, sums));
  for (const int threads : {128, 512}) {
    write("k.toml", fmt::format(R"toml(
[kernel]
source = "k.ptx"
global = "squares"
args = ["x", "y", "n"]
grid = ["ceil_div(n, {0})"]
block = [{0}]
[dims]
n = {{ min = 1, max = 3000 }}
[tensors.x]
dtype = "f32"
shape = [200]
values = "weights"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i in 0..n] = sum[k in 0..200](x[k] * x[199 - k])"
)toml",
                                threads));
    const CommandResult result = assay({"check", path("k.toml"), "--budget", "1", "--no-prove"});
    EXPECT_EQ(result.status == 1, threads == 512) << result.output;
    EXPECT_EQ(result.output.find("launch-failure") != std::string::npos, threads == 512) << result.output;
  }
}

// 64 of four million rows are left out, where a grid has more rows of tiles than an axis may have. Of all elements they are
// so few that only knowing which block writes what shows it (assayer/ownership.h). Nothing is said of the same tiles in an
// order that is right and odd.
TEST_F(CheckTest, RowsThatNoBlockOfAGiantGridOwnsAreUnwritten) {
  const auto tiled = [&](const std::string& tile, const std::string& grid) {
    write("k.cu", R"(#include <cuda_runtime.h>
__global__ void twice(const signed char* x, signed char* y, int rows, int cols, int wide, int high) {
  )" + tile + R"(
  for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) {
    const long long r = 64LL * row + i / 64;
    const int c = 64 * column + i % 64;
    if (r < rows && c < cols) y[r * cols + c] = x[r * cols + c];
  }
}
extern "C" void k(const signed char* x, signed char* y, int rows, int cols, cudaStream_t stream) {
  const int wide = (cols + 63) / 64, high = (rows + 63) / 64;
  twice<<<)" + grid + R"(, 256, 0, stream>>>(x, y, rows, cols, wide, high);
}
)");
    write("k.toml", R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "rows", "cols", "stream"]
[dims]
rows = { min = 1, max = 4194304 }
cols = { min = 65, max = 1000 }
[tensors.x]
dtype = "i8"
shape = ["rows", "cols"]
[tensors.y]
dtype = "i8"
shape = ["rows", "cols"]
role = "out"
[reference]
formula = "y[r, c] = x[r, c]"
)");
    last_ = assay({"check", path("k.toml"), "--json", path("report.json"), "--budget", "4", "--no-prove"});
    return last_.status;
  };
  EXPECT_EQ(tiled("const int row = blockIdx.y, column = blockIdx.x;", "dim3(wide, min(high, 65535))"), 1)
      << last_.output;
  EXPECT_EQ(kind(), "unwritten-output");
  EXPECT_EQ(report()["findings"][0]["evidence"]["trial"]["sampled"], true);
  EXPECT_NE(
      tiled("const int group = blockIdx.x / (8 * wide), first = 8 * group, size = min(high - first, 8);"
            "const int rest = blockIdx.x % (8 * wide), row = first + rest % size, column = rest / size;",
            "wide * high"),
      1)
      << last_.output;
}

// Blocks beyond 2^32 elements write the first ones again: no trial that runs whole grids shows that.
TEST_F(CheckTest, AnIndexThatWrapsIsFoundAtAGiantShape) {
  // y[i] = x[i]; the index is the product `wide`, or a 32-bit one.
  const auto ptx = [](const char* index) {
    return std::string(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u64 n) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %rd5, %r3;
  )") + index +
           R"(
  setp.ge.u64 %p, %rd4, %rd3;
  @%p bra DONE;
  shl.b64 %rd4, %rd4, 2;
  add.s64 %rd6, %rd1, %rd4;
  add.s64 %rd7, %rd2, %rd4;
  ld.global.f32 %f, [%rd6];
  st.global.f32 [%rd7], %f;
DONE:
  ret;
}
)";
  };
  write("k.toml", R"toml(
[kernel]
source = "k.ptx"
global = "copy"
args = ["x", "y", "n"]
grid = ["ceil_div(n, 256)"]
block = [256]
[dims]
n = { min = 1, max = 5000000000, type = "i64" }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
)toml");
  write("k.ptx", ptx("mad.lo.u32 %r4, %r1, %r2, %r3; cvt.u64.u32 %rd4, %r4;"));
  const CommandResult wrong = assay({"check", path("k.toml"), "--json", path("report.json"), "--no-prove"});
  EXPECT_EQ(wrong.status, 1) << wrong.output;
  EXPECT_EQ(kind(), "unwritten-output");
  EXPECT_EQ(report()["findings"][0]["evidence"]["trial"]["sampled"], true);
  EXPECT_THAT(wrong.output, HasSubstr("n=4294967297, a sample of the blocks")) << "the smallest case";
  write("k.ptx", ptx("mul.wide.u32 %rd4, %r1, %r2; add.u64 %rd4, %rd4, %rd5;"));
  EXPECT_EQ(assay({"replay", path("report.json")}).status, 0);
}

TEST_F(CheckTest, SeveralContractsShareOneTableAndOneReport) {
  ASSERT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;"), "", "1"), 0);
  fs::create_directories(folder_ / "all");
  for (const char* name : {"a", "b"}) {
    fs::copy(path("k.toml"), folder_ / "all" / (std::string(name) + ".toml"));
  }
  write("all/k.cu", kernel("if (i < n) y[i] = x[i] * 2.0f;"));
  write("all/wrong.cu", kernel("if (i < n) y[i] = x[i] * 3.0f;"));
  std::ifstream whole(path("k.toml"));
  std::string text((std::istreambuf_iterator<char>(whole)), {});
  text.replace(text.find("k.cu"), 4, "wrong.cu");
  write("all/wrong.toml", text);
  CommandResult result =
      assay({"check", path("all"), path("k.toml"), "--budget", "1", "--json", path("report.json"), "--junit",
             path("report.xml"), "--sarif", path("report.sarif")});
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("3 passed, 1 failed, 0 inconclusive"));
  const json all = report();
  EXPECT_EQ(all["verdict"], "fail");
  ASSERT_EQ(all["reports"].size(), 4u);
  EXPECT_EQ(all["reports"][2]["verdict"], "fail");  // in the order of their names, whichever ended first
  std::ifstream xml(path("report.xml"));
  EXPECT_THAT(std::string((std::istreambuf_iterator<char>(xml)), {}),
              HasSubstr("tests=\"4\" failures=\"1\""));
  EXPECT_EQ(json::parse(std::ifstream(path("report.sarif")))["runs"][0]["results"].size(), 1u);
  // The worst of all decides: a contract that cannot be read, here.
  result =
      assay({"check", path("missing.toml"), path("k.toml"), "--budget", "1", "--json", path("report.json")});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(report()["reports"][1]["verdict"], "pass");
}

TEST_F(CheckTest, WhatIsMissingIsSaidInOneLine) {
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

TEST_F(CheckTest, ArgumentsThatTheFunctionDoesNotTakeAreStatusTwo) {
  EXPECT_EQ(check_kernel("#include <cuda_runtime.h>\n// k(1, 2)\n"
                         "extern \"C\" void k(const float* x, float* y, cudaStream_t stream) {}\n"),
            2);
  EXPECT_THAT(last_.output,
              HasSubstr("k.cu:3: error: k takes 3 arguments (x, y, stream), but the contract passes 4"));
}

TEST_F(CheckTest, AContractThatIsWrongIsStatusTwo) {
  write("bad.toml", "title = 3\n");
  EXPECT_EQ(assay({"check", path("bad.toml")}).status, 2);
  EXPECT_EQ(assay({"check", path("missing.toml")}).status, 2);
  EXPECT_EQ(assay({"check"}).status, 2);
  EXPECT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;") + "\n#define k other\n",
                         "\n[dims.m]\nmin = 3\nmax = 2\n"),
            2);
}

// A pass after a handful of trials would say nothing.
TEST_F(CheckTest, TooFewTrialsAreInconclusiveAndSayWhatIsMissing) {
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

TEST_F(CheckTest, APassMayAskForAShareOfThePlan) {
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
TEST_F(CheckTest, SizesThatTheCodeNamesAreTried) {
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
TEST_F(CheckTest, APassWaitsForTheSizesThatTheCodeNames) {
  for (const char* budget : {"0.01", "0.3"}) {
    EXPECT_NE(check_kernel(kernel("if (i < n) y[i] = x[i] * (n == 54321 ? 3.0f : 2.0f);"), "", budget), 0)
        << budget;
    EXPECT_NE(check_kernel(kernel("if (i < n) y[i] = x[i] * (n % 1234 == 765 && n > 9999 ? 3.0f : 2.0f);"),
                           "", budget),
              0)
        << budget;
  }
}

TEST_F(CheckTest, ASourceThatDoesNotCompileIsInconclusive) {
  EXPECT_EQ(check_kernel("this is no C++\n"), 3);
  EXPECT_EQ(report()["verdict"], "inconclusive");
  EXPECT_THAT(last_.output, HasSubstr("error"));
  EXPECT_THAT(last_.output, HasSubstr("k.toml:3:10: k.cu does not compile"));
}

// Whatever time does to a check, its report tells how to make the same trials again.
TEST_F(CheckTest, AReportRepeatsItsCheckExactly) {
  for (const char* body :
       {"if (i < n) y[i] = i == 77 ? 0.0f : x[i] * 2.0f;", "if (i < n) y[i] = x[i] * 2.0f;"}) {
    check_kernel(kernel(body), "", "2");
    json first = report();
    const CommandResult again =
        assay({"check", "--repeat", path("report.json"), "--json", path("again.json")});
    EXPECT_EQ(again.status, last_.status) << again.output;
    json second = json::parse(std::ifstream(path("again.json")));
    for (json* report : {&first, &second}) {
      report->erase("seconds");
      report->erase("no_proof");  // trials are repeated; proofs are not, and not missed
      (*report)["coverage"].erase("build");
    }
    EXPECT_EQ(first, second);
  }
  EXPECT_EQ(assay({"check", "--repeat", path("k.toml")}).status, 2);
}

// Both calls are right alone; what they share is seen even where the sums happen to come out right.
TEST_F(CheckTest, CallsThatShareMemoryAreNotConcurrent) {
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

TEST_F(CheckTest, EqualSeedsGiveEqualReports) {
  const std::string wrong = kernel("if (i < n) y[i] = i == 77 ? 0.0f : x[i] * 2.0f;");
  ASSERT_EQ(check_kernel(wrong), 1);
  const json first = report();
  ASSERT_EQ(check_kernel(wrong), 1);
  EXPECT_EQ(first["findings"][0]["evidence"]["found_with"],
            report()["findings"][0]["evidence"]["found_with"]);
}

}  // namespace
}  // namespace assay::subject
