// Text cases. bad/*.ptx: the first line says which error is expected. good/*.ptx and the fuzzer's
// seeds: they parse and survive printing.
#include "support.h"

namespace assay::ptx {
namespace {

TEST(Files, BadOnesGiveTheErrorTheyName) {
  const std::string marker = "// error: ";
  auto paths = files_in("bad", ".ptx");
  EXPECT_GE(paths.size(), 40u);
  for (const auto& path : paths) {
    std::string text = read_file(path);
    ASSERT_TRUE(text.starts_with(marker)) << path;
    std::string expected = text.substr(marker.size(), text.find('\n') - marker.size());
    EXPECT_EQ(error_of(text), "test:" + expected) << path;
  }
}

TEST(Files, GoodOnesRoundTrip) {
  auto paths = files_in("good", ".ptx");
  for (const auto& seed : files_in("../../fuzz/seeds/ptx", ".ptx")) paths.push_back(seed);
  EXPECT_GE(paths.size(), 7u);
  for (const auto& path : paths) {
    Result<Module> module = parse(read_file(path), path.filename().string());
    ASSERT_TRUE(module) << module.error().text();
    expect_round_trip(*module, path.filename());
  }
}

}  // namespace
}  // namespace assay::ptx
