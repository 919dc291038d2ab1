// Every function of NVIDIA's library is in ours, and nothing else is.
#include <set>
#include <string_view>

#include "support.h"

namespace assay::driver::test {
namespace {

std::set<std::string> exported(const std::string& library) {
  std::set<std::string> names;
  for (const std::string& line :
       cudart::test::lines(cudart::test::run({"nm", "-D", "--defined-only", library}).out))
    if (const size_t at = line.find(" T "); at != std::string::npos) names.insert(line.substr(at + 3));
  return names;
}

struct Row {
  std::string_view symbol, name;
  int since;
};

constexpr Row kRows[] = {
#define PROVIDED(symbol, name, since) {#symbol, #name, since},
#define MISSING(symbol, name, since) {#symbol, #name, since},
#include "driver/symbols.def"
};

std::set<std::string> table() {
  std::set<std::string> symbols;
  for (const Row& row : kRows) symbols.emplace(row.symbol);
  return symbols;
}

TEST(Symbols, TheLibraryExportsTheTable) {
  EXPECT_GT(table().size(), 600u);
  EXPECT_EQ(exported(kDriver), table());
}

TEST(Symbols, TheTableIsTheToolkitsStub) {
  const std::string stub = ASSAY_TOOLKIT_CUDA;
  if (!cudart::test::exists(stub)) GTEST_SKIP() << "the CUDA toolkit's libcuda.so is not installed";
  EXPECT_EQ(table(), exported(stub));
}

TEST(Symbols, ASymbolIsItsNameWithASuffix) {
  for (const Row& row : kRows) {
    EXPECT_TRUE(row.symbol.starts_with(row.name)) << row.symbol;
    EXPECT_GE(row.since, 2000) << row.symbol;
  }
}

}  // namespace
}  // namespace assay::driver::test
