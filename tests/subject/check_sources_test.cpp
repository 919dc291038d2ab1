// Kernels without host code, PTX, and giant grids of which a sample of the blocks runs.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "check.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;

class CheckSources : public CheckTest {};

TEST_F(CheckSources, AGlobalFunctionNeedsNoHostCode) {
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

TEST_F(CheckSources, APtxFileNeedsOnlyItsKernel) {
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
TEST_F(CheckSources, RegistersOfPtxLimitTheThreadsOfABlock) {
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
TEST_F(CheckSources, RowsThatNoBlockOfAGiantGridOwnsAreUnwritten) {
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
TEST_F(CheckSources, AnIndexThatWrapsIsFoundAtAGiantShape) {
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

}  // namespace
}  // namespace assay::subject
