// Every function of NVIDIA's library is in ours, under the same symbol version.
#include <gtest/gtest.h>

#include <set>

#include "support.h"

namespace assay::cudart::test {
namespace {

std::set<std::string> exported(const std::string& library) {
  std::set<std::string> names;
  for (const std::string& line : lines(run({"readelf", "-Ws", "--dyn-syms", library}).out)) {
    size_t version = line.find("@@libcudart.so.13");
    if (version == std::string::npos || line.find(" FUNC ") == std::string::npos ||
        line.find(" UND ") != std::string::npos)
      continue;
    size_t start = line.rfind(' ', version) + 1;
    names.insert(line.substr(start, version - start));
  }
  return names;
}

std::set<std::string> table() {
  return {
#define PROVIDED(name) #name,
#define MISSING(name) #name,
#include "cudart/symbols.def"
  };
}

TEST(Symbols, TheLibraryExportsTheTable) {
  std::set<std::string> ours = exported(kLibrary);
  EXPECT_GT(table().size(), 400u);
  for (const std::string& name : table()) EXPECT_TRUE(ours.contains(name)) << name;
  for (const std::string& name : ours)
    EXPECT_TRUE(table().contains(name) || name.starts_with("assay_")) << name << " is not in symbols.def";
}

TEST(Symbols, TheTableIsTheToolkitsLibrary) {
  std::string toolkit = ASSAY_TOOLKIT_CUDART;
  if (!exists(toolkit)) GTEST_SKIP() << "the CUDA toolkit's libcudart.so.13 is not installed";
  EXPECT_EQ(table(), exported(toolkit));
}

}  // namespace
}  // namespace assay::cudart::test
