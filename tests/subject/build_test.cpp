#include <gmock/gmock.h>

#include "subject/subject.h"
#include "support.h"

namespace assay::subject {
namespace {

using contract::Contract;
using ::testing::HasSubstr;

TEST(Build, AMissingSourceIsTheContractsFault) {
  Folder folder;
  const Contract contract = contract_in(folder, "missing.cu", "entry = \"k\"");
  const BuildOutcome outcome = build(contract, {.cache = folder.path("cache")});
  ASSERT_FALSE(outcome.subject);
  EXPECT_TRUE(outcome.failure.contract_wrong);
  EXPECT_THAT(outcome.failure.error.message, HasSubstr("missing.cu"));
}

TEST(Build, FindsAKernelInPtxByEitherName) {
  Folder folder;
  folder.write("k.ptx",
               ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry _Z5scalePKfPfi(\n.param .u64 "
               "x, .param .u64 y, "
               ".param .u32 n, .param .u64 stream)\n{\nret;\n}\n.visible .entry wide(.param .u64 x, .param "
               ".u64 y, .param .u64 n, "
               ".param .u64 stream)\n{\nret;\n}\n");
  for (const char* name : {"scale", "_Z5scalePKfPfi"}) {
    const Contract contract = contract_in(
        folder, "k.ptx", std::string("global = \"") + name + "\"\ngrid = [\"1\"]\nblock = [\"32\"]");
    const BuildOutcome outcome = build(contract, {.cache = folder.path("cache")});
    ASSERT_TRUE(outcome.subject) << outcome.failure.error.text();
    EXPECT_EQ(outcome.subject->symbol, "_Z5scalePKfPfi");
    EXPECT_TRUE(outcome.subject->launched);
  }
  const Contract other =
      contract_in(folder, "k.ptx", "global = \"nothing\"\ngrid = [\"1\"]\nblock = [\"32\"]");
  const BuildOutcome outcome = build(other, {.cache = folder.path("cache")});
  ASSERT_FALSE(outcome.subject);
  EXPECT_TRUE(outcome.failure.contract_wrong);
  const BuildOutcome wide =
      build(contract_in(folder, "k.ptx", "global = \"wide\"\ngrid = [\"1\"]\nblock = [\"32\"]"),
            {.cache = folder.path("cache")});
  ASSERT_FALSE(wide.subject);
  EXPECT_THAT(wide.failure.error.text(),
              HasSubstr("parameter 3 of wide is `.u64 n`, but the contract passes dim n as i32"));
}

constexpr const char* kCopyKernel = R"(
#include "factor.h"
__global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * FACTOR;
}
extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  if (n > 0) copy<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
)";

TEST(Build, IsCachedByContentHeadersIncluded) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  Folder folder;
  folder.write("k.cu", kCopyKernel);
  folder.write("factor.h", "#define FACTOR 1.0f\n");
  const Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  const BuildOptions options{.cache = folder.path("cache")};
  const BuildOutcome first = build(contract, options);
  ASSERT_TRUE(first.subject) << first.failure.error.text() << first.failure.output;
  EXPECT_FALSE(first.subject->cached);
  EXPECT_TRUE(build(contract, options).subject->cached);
  folder.write("factor.h", "#define FACTOR 2.0f\n");
  EXPECT_FALSE(build(contract, options).subject->cached);
}

TEST(Build, OfSeveralSourcesIsCachedToo) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  Folder folder;
  folder.write("k.cu", kCopyKernel);
  folder.write("factor.h", "#define FACTOR 1.0f\n");
  folder.write("other.cpp", "#include \"other.h\"\nint other() { return OTHER; }\n");
  folder.write("other.h", "#define OTHER 1\n");
  Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  contract.kernel.sources.push_back("other.cpp");
  const BuildOptions options{.cache = folder.path("cache")};
  const BuildOutcome first = build(contract, options);
  ASSERT_TRUE(first.subject) << first.failure.error.text() << first.failure.output;
  EXPECT_FALSE(first.subject->cached);
  EXPECT_TRUE(build(contract, options).subject->cached);
  folder.write("other.h", "#define OTHER 2\n");
  EXPECT_FALSE(build(contract, options).subject->cached);
}

TEST(Build, ShowsTheCompilersOwnWords) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  Folder folder;
  folder.write("k.cu", "extern \"C\" void k() { no_such_thing(); }\n");
  const Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  const BuildOutcome outcome = build(contract, {.cache = folder.path("cache")});
  ASSERT_FALSE(outcome.subject);
  EXPECT_FALSE(outcome.failure.contract_wrong);
  EXPECT_THAT(outcome.failure.output, HasSubstr("no_such_thing"));
  EXPECT_GT(outcome.failure.error.line, 0);
}

struct Lookup {
  const char *source, *kernel, *expected;  // … of the message; empty: it is found
};
class EntryTest : public ::testing::TestWithParam<Lookup> {};

TEST_P(EntryTest, IsLookedUpAsTheLoaderDoes) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  const auto [source, kernel, expected] = GetParam();
  Folder folder;
  folder.write("k.cu", source);
  const BuildOutcome outcome = build(contract_in(folder, "k.cu", kernel), {.cache = folder.path("cache")});
  if (std::string_view(expected).empty()) {
    EXPECT_TRUE(outcome.subject) << outcome.failure.error.text() << outcome.failure.output;
    return;
  }
  ASSERT_FALSE(outcome.subject);
  EXPECT_TRUE(outcome.failure.contract_wrong);
  EXPECT_THAT(outcome.failure.error.message, HasSubstr(expected));
}

#define ARGUMENTS "(const float* x, float* y, int n, cudaStream_t stream)"
#define C_FUNCTION(name) "extern \"C\" void " name ARGUMENTS " {}\n"
#define LAUNCH "\"\ngrid = [\"1\"]\nblock = [\"32\"]"
INSTANTIATE_TEST_SUITE_P(
    Entries, EntryTest,
    ::testing::Values(
        Lookup{C_FUNCTION("scale") C_FUNCTION("fused_scale"), "entry = \"scale\"", ""},
        Lookup{C_FUNCTION("scale") C_FUNCTION("scale_fused"), "entry = \"scale\"", ""},
        Lookup{"namespace a { namespace b {\n" C_FUNCTION("scale") "}}\n", "entry = \"scale\"", ""},
        Lookup{"template <class T> static void each(T*) {}\n" C_FUNCTION("e"), "entry = \"e\"", ""},
        Lookup{C_FUNCTION("fused_scale") C_FUNCTION("rescale"), "entry = \"scale\"",
               "k.cu: `scale` is not defined; the extern \"C\" functions are: fused_scale, rescale"},
        Lookup{"const char* names = \"scale\";\nextern \"C\" void scale(int);\n" C_FUNCTION("other"),
               "entry = \"scale\"", "`scale` is not defined"},
        Lookup{
            "namespace k {\nvoid scale" ARGUMENTS " {}\n}\n", "entry = \"scale\"",
            "k::scale(float const*, float*, int, CUstream_st*) is a C++ function; declare it extern \"C\""},
        Lookup{"extern \"C\" static __attribute__((used)) void scale" ARGUMENTS " {}\n", "entry = \"scale\"",
               "scale is static or hidden"},
        Lookup{"extern \"C\" { float scale = 2; }\n", "entry = \"scale\"", "scale is a variable"},
        Lookup{"static int nothing;\n", "entry = \"scale\"", "nor is any other extern \"C\" function"},
        Lookup{"__global__ void scale(const float*, float*, int) {}\n__global__ void fused(float*) {}\n",
               "global = \"scal" LAUNCH, "k.cu has no kernel scal; it has "},
        Lookup{"template <int N> __global__ void __launch_bounds__(N) scale(float*, float*, int) {}\n",
               "global = \"scale" LAUNCH, "scale is a template: name an instance of it, as scale<…>"},
        Lookup{"__global__ void scale(float*) {}\n__global__ void scale" ARGUMENTS " {}\n",
               "global = \"_Z5scalePKfPfiP11CUstream_st" LAUNCH, ""}));

}  // namespace
}  // namespace assay::subject
