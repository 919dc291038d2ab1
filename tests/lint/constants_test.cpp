#include "lint/constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::lint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

SizeConstants in_source(std::string_view source) {
  SizeConstants found;
  constants_of(source, found);
  return found;
}

SizeConstants in_ptx(const std::string& body) {
  const auto module = ptx::parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 x, .param .u32 n) {\n"
      ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n"
      "ld.param.u32 %r1, [n];\n" +
          body + "ret;\n}\n",
      "case");
  EXPECT_TRUE(module) << (module ? "" : module.error().text());
  SizeConstants found;
  if (module) constants_of(*module, found);
  return found;
}

TEST(SourceConstants, AreThoseOfComparisons) {
  EXPECT_THAT(in_source("if (n > 8192) f();").compared, ElementsAre(8192));
  EXPECT_THAT(in_source("if (8192 <= n) f();").compared, ElementsAre(8192));
  EXPECT_THAT(in_source("switch (n) { case 5120: f(); case 14336: g(); }").compared,
              ElementsAre(5120, 14336));
  EXPECT_THAT(in_source("launch<14336>(x, n);").compared, ElementsAre(14336));
  EXPECT_THAT(in_source("if ((long long)n * d >= (1LL << 24)) f();").compared, ElementsAre(1 << 24));
  EXPECT_THAT(in_source("if (n > static_cast<int64_t>(64 * 1024 + 1)) f();").compared, ElementsAre(65537));
  EXPECT_THAT(in_source("if (n == 1'048'576u || n == 0x2000 || n > 1e6) f();").compared,
              ElementsAre(1 << 20, 0x2000, 1000000));
}

TEST(SourceConstants, FollowNames) {
  EXPECT_THAT(in_source("constexpr int kLimit = 5 * 1024;\nvoid k(int n) { if (n > kLimit) f(); }").compared,
              ElementsAre(5120));
  EXPECT_THAT(in_source("#define LIMIT (1 << 13)\nvoid k(int n) { if (n > LIMIT) f(); }").compared,
              ElementsAre(8192));
  EXPECT_THAT(in_source("enum { kWide = 4096, };\nbool f(int n) { return n >= kWide; }").compared,
              ElementsAre(4096));
}

TEST(SourceConstants, SeeThroughDivision) {
  EXPECT_THAT(in_source("if (n / 4 > 1024) f();").compared, IsSupersetOf({1024, 4096}));
  EXPECT_THAT(in_source("if ((n >> 3) > 1000) f();").compared, IsSupersetOf({1000, 8000}));
  EXPECT_THAT(in_source("if (n * 4 > 65536) f();").compared, IsSupersetOf({65536, 16384}));
}

TEST(SourceConstants, KnowRemainders) {
  EXPECT_THAT(in_source("if (n % 96 == 32 && rows > 1000) f();").residues, ElementsAre(Residue{96, 32}));
  EXPECT_THAT(in_source("if (n % 96 == 32 && rows > 1000) f();").compared, Contains(1000));
  EXPECT_THAT(in_source("if ((n & 7) == 0) f();").residues, ElementsAre(Residue{8, 0}));
  EXPECT_THAT(in_source("int rest = n % 24;").residues, ElementsAre(Residue{24, 0}));
}

TEST(SourceConstants, IgnoreCommentsStringsAndDirectives) {
  const SizeConstants found = in_source(
      "#include <a/4097.h>\n// n > 4096\n/* n > 8192\n */ const char* s = \"n > 5120\"; char c = '\\'';\n"
      "#pragma unroll 48\nauto r = R\"x(n > 777 \")x\"; float f = 1.5e3f + .25f;\n");
  EXPECT_THAT(found.compared, IsEmpty());
  EXPECT_THAT(found.mentioned, Not(Contains(48)));
  EXPECT_THAT(found.mentioned, Not(Contains(4097)));
}

TEST(SourceConstants, AreMentionedElsewhere) {
  const SizeConstants found = in_source("__shared__ float row[6144]; k<<<n, 192, 0, s>>>(min(n, 3000));");
  EXPECT_THAT(found.compared, IsEmpty());
  EXPECT_THAT(found.mentioned, IsSupersetOf({6144, 192, 3000}));
}

TEST(SourceConstants, SurviveAnything) {
  for (const char* text : {"",
                           "#",
                           "#define",
                           "#define X",
                           "\"",
                           "'",
                           "R\"",
                           "/*",
                           "1",
                           "n %",
                           "n % 0 == 0",
                           "n >",
                           "((((",
                           "))))",
                           "<<",
                           "case",
                           "0x",
                           "1 << 99 > n",
                           "9999999999999999999999 > n",
                           "\\"})
    in_source(text);
}

TEST(PtxConstants, AreComparedWithSizes) {
  EXPECT_THAT(in_ptx("setp.gt.s32 %p1, %r1, 5000;\n").compared, ElementsAre(5000));
  EXPECT_THAT(in_ptx("shr.u32 %r2, %r1, 2;\nsetp.gt.u32 %p1, %r2, 1000;\n").compared,
              IsSupersetOf({1000, 4000}));
  EXPECT_THAT(
      in_ptx("mov.u32 %r2, %ntid.x;\nmul.lo.s32 %r3, %r1, %r2;\nsetp.gt.s32 %p1, %r3, 70000;\n").compared,
      ElementsAre(70000));
}

TEST(PtxConstants, AreNoSizesWhereAThreadsPlaceIsPartOfThem) {
  const SizeConstants found =
      in_ptx("mov.u32 %r2, %tid.x;\nadd.s32 %r3, %r1, %r2;\nsetp.gt.s32 %p1, %r3, 5000;\n");
  EXPECT_THAT(found.compared, IsEmpty());
  EXPECT_THAT(found.mentioned, ElementsAre(5000));
}

TEST(PtxConstants, KnowRemainders) {
  EXPECT_THAT(in_ptx("rem.s32 %r2, %r1, 96;\nsetp.eq.s32 %p1, %r2, 32;\n").residues,
              ElementsAre(Residue{96, 32}));
  EXPECT_THAT(in_ptx("and.b32 %r2, %r1, 7;\nsetp.eq.s32 %p1, %r2, 0;\n").residues,
              ElementsAre(Residue{8, 0}));
  // As compilers write it.
  EXPECT_THAT(in_ptx("mul.hi.s32 %r2, %r1, 715827883;\nshr.u32 %r3, %r2, 31;\nshr.s32 %r4, %r2, 4;\n"
                     "add.s32 %r5, %r4, %r3;\nmul.lo.s32 %r6, %r5, 96;\nsub.s32 %r7, %r1, %r6;\n"
                     "setp.ne.s32 %p1, %r7, 32;\n")
                  .residues,
              ElementsAre(Residue{96, 32}));
}

}  // namespace
}  // namespace assay::lint
