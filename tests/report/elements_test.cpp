// Elements of shared arrays by the text of their declaration: right, or none at all.
#include "report/elements.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

#include "finding/message.h"

namespace assay::report {
namespace {

// "[1][5] + 2", or "none". `symbol`: of a variable of kernel k unless it is mangled already.
std::string element(const std::string& source, const std::string& name, uint64_t bytes, uint64_t offset) {
  const std::string symbol = name.starts_with("_Z") ? name
                             : bytes == 0           ? name
                                                    : fmt::format("_ZZ1kPfE{}{}", name.size(), name);
  const auto found = find_element(source, {symbol, bytes, offset});
  if (!found) return "none";
  std::string text;
  for (const uint64_t index : found->indices) text += fmt::format("[{}]", index);
  return found->rest ? fmt::format("{} + {}", text, found->rest) : text;
}

std::string kernel(const std::string& body) {
  return "__global__ void k(float* x) {\n" + body + "\n}\n";
}

TEST(Elements, FollowTheDimensions) {
  EXPECT_EQ(element(kernel("__shared__ float tile[2][32][33];"), "tile", 8448, 4224 + 5 * 132 + 8),
            "[1][5][2]");
  EXPECT_EQ(element(kernel("__shared__ float a[32], b[4][8];"), "b", 128, 68), "[2][1]");
  EXPECT_EQ(element(kernel("__shared__ __align__(16) unsigned short v[64];"), "v", 128, 10), "[5]");
  EXPECT_EQ(element(kernel("__shared__ alignas(128) volatile unsigned long long v[8];"), "v", 64, 20),
            "[2] + 4");
  EXPECT_EQ(element(kernel("__shared__ float total;"), "total", 4, 0), "");
  EXPECT_EQ(element(kernel("__shared__\n  float\n  tile[8]\n  [4];"), "tile", 128, 20), "[1][1]");
}

TEST(Elements, GoOnPastTheEnd) {
  EXPECT_EQ(element(kernel("__shared__ float a[32];"), "a", 128, 128), "[32]");
  EXPECT_EQ(element(kernel("__shared__ float a[4][8];"), "a", 128, 132), "[4][1]");
}

TEST(Elements, FollowConstantsAndMacros) {
  const std::string constants = "constexpr int BM = 8, BK = 2 * BM;\n#define PAD 1  // to spread the banks\n";
  EXPECT_EQ(element(constants + kernel("__shared__ float t[BM][BK + PAD];"), "t", 8 * 17 * 4, 3 * 68 + 4),
            "[3][1]");
  EXPECT_EQ(element("enum { kRows = 4, kColumns = 8 };\n" + kernel("__shared__ float t[kRows][kColumns];"),
                    "t", 128, 36),
            "[1][1]");
  EXPECT_EQ(element(kernel("const int n = 1 << 3;\n__shared__ float t[4][n];"), "t", 128, 36), "[1][1]");
  EXPECT_EQ(element(kernel("__shared__ char t[4][sizeof(double)];"), "t", 32, 9), "[1][1]");
}

TEST(Elements, FollowTemplateArguments) {
  const std::string source =
      "template <int N, typename T = float>\n__global__ void k(T* x) {\n"
      "  __shared__ T tile[N][N + 1];\n}\n";
  EXPECT_EQ(element(source, "_ZZ1kILi16EdEvPT0_E4tile", 16 * 17 * 8, 17 * 8 + 16), "[1][2]");
}

TEST(Elements, InferTheOneThingThatIsUnknown) {
  EXPECT_EQ(element(kernel("__shared__ float t[UNKNOWN][8];"), "t", 128, 36), "[1][1]");
  EXPECT_EQ(element(kernel("__shared__ Pair t[4];"), "t", 48, 28), "[2] + 4");
  EXPECT_EQ(element(kernel("__shared__ float t[UNKNOWN][OTHER];"), "t", 128, 36), "none");
}

TEST(Elements, OfDynamicMemoryByItsType) {
  EXPECT_EQ(element(kernel("extern __shared__ float smem[];"), "smem", 0, 640), "[160]");
  EXPECT_EQ(element(kernel("extern __shared__ float4 smem[];"), "smem", 0, 40), "[2] + 8");
  EXPECT_EQ(element(kernel("extern __shared__ Unknown smem[];"), "smem", 0, 640), "none");
}

// No index is better than a wrong one.
TEST(Elements, AreNoneWhereTheSourceDoesNotTell) {
  EXPECT_EQ(element("", "tile", 128, 4), "none");
  EXPECT_EQ(element(kernel("__shared__ float other[32];"), "tile", 128, 4), "none");
  EXPECT_EQ(element(kernel("__shared__ float tile[4][4];"), "tile", 128, 4), "none");  // another size
  EXPECT_EQ(element(kernel("// __shared__ float tile[32];"), "tile", 128, 4), "none");
  EXPECT_EQ(element(kernel("__shared__ float tile[DIM(4)][8];"), "tile", 256, 36),
            "[1][1]");  // the one unknown
  // Two values for one name, both at file scope.
  const std::string twice = "#ifdef A\n#define N 8\n#else\n#define N 16\n#endif\n";
  EXPECT_EQ(element(twice + kernel("__shared__ float t[UNKNOWN][N];"), "t", 512, 36), "none");
}

TEST(Elements, BelongToTheirFunction) {
  const std::string two = "__global__ void other(float* x) {\n  __shared__ float tile[2][16];\n}\n" +
                          kernel("__shared__ float tile[4][8];");
  EXPECT_EQ(element(two, "tile", 128, 36), "[1][1]");
  EXPECT_EQ(element(two, "_ZZ5otherPfE4tile", 128, 68), "[1][1]");
  EXPECT_EQ(element(two, "_ZZ5thirdPfE4tile", 128, 68), "none");  // a macro's, perhaps: the two differ
}

evidence::SharedArray tile_at(int64_t offset) {
  return {.name = "tile", .symbol = "_ZZ1kPfE4tile", .bytes = 128, .offset = offset};
}

// A finding about `tile` whose file holds the declaration.
class NamedElements : public ::testing::Test {
 protected:
  NamedElements() { std::ofstream(path_) << kernel("__shared__ float tile[4][8];"); }
  ~NamedElements() override { std::remove(path_.c_str()); }

  Finding named(Kind kind, Evidence evidence) const {
    Finding finding{.kind = kind, .where = {path_, 2}, .evidence = std::move(evidence)};
    name_elements(finding);
    return finding;
  }

 private:
  std::string path_ = ::testing::TempDir() + "assay_elements_test.cu";
};

TEST_F(NamedElements, OfAnAccessAndOfWhatLiesThere) {
  evidence::Access access{.access = evidence::AccessKind::Read, .bytes = 4};
  access.place.array = tile_at(128);
  access.neighbour = tile_at(36);
  EXPECT_EQ(message(named(Kind::OutOfBounds, access)),
            "reads tile[4][0], past the end of shared array `tile` of 128 bytes; it hits tile[1][1] instead");
}

TEST_F(NamedElements, OfARace) {
  evidence::Race race{.access = evidence::AccessKind::Read};
  race.place.array = tile_at(0);
  EXPECT_THAT(message(named(Kind::DataRace, race)), ::testing::StartsWith("reads tile[0][0], which"));
  race.place.array = tile_at(38);
  EXPECT_THAT(message(named(Kind::DataRace, race)),
              ::testing::StartsWith("reads tile[1][1] + 2 bytes, which"));
}

// The worker is not to be trusted with what it says.
TEST_F(NamedElements, OfNonsenseAreNone) {
  evidence::Access access{.access = evidence::AccessKind::Read, .bytes = 4};
  for (const evidence::SharedArray& array :
       {tile_at(-8), evidence::SharedArray{},
        evidence::SharedArray{.name = "t", .symbol = "_Z", .bytes = ~0ull},
        evidence::SharedArray{.name = "tile", .symbol = "_ZZ1kPfE4tile", .bytes = 5, .offset = INT64_MAX}}) {
    access.place.array = array;
    const Finding finding = named(Kind::OutOfBounds, access);
    EXPECT_TRUE(std::get<evidence::Access>(finding.evidence).place.array->indices.empty()) << array.symbol;
  }
}

}  // namespace
}  // namespace assay::report
