// Every function of NVIDIA's library is in ours, and nothing else is.
#include <set>

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

std::set<std::string> table() {
  return {
#define PROVIDED(symbol, name, since) #symbol,
#define MISSING(symbol, name, since) #symbol,
#include "driver/symbols.def"
  };
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
#define PROVIDED(symbol, name, since)                              \
  EXPECT_TRUE(std::string(#symbol).starts_with(#name)) << #symbol; \
  EXPECT_GE(since, 2000) << #symbol;
#define MISSING(symbol, name, since) PROVIDED(symbol, name, since)
#include "driver/symbols.def"
}

}  // namespace
}  // namespace assay::driver::test
