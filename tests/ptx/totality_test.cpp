// Any byte string gives a module or an error with a place: truncations, mutations, garbage, nesting.
#include <random>

#include "support.h"

namespace assay::ptx {
namespace {

void expect_total(const std::string& text) {
  Result<Module> module = parse(text, "x");
  if (module) return;
  EXPECT_FALSE(module.error().message.empty());
  EXPECT_GE(module.error().line, 1);
  EXPECT_GE(module.error().column, 1);
}

TEST(Totality, Truncations) {
  for (const auto& path : files_in("../../fuzz/seeds/ptx", ".ptx")) {
    std::string text = read_file(path);
    for (size_t length = 0; length < text.size(); length += 3) expect_total(text.substr(0, length));
  }
}

TEST(Totality, Mutations) {
  std::mt19937 random(1);
  for (const auto& path : files_in("../../fuzz/seeds/ptx", ".ptx")) {
    const std::string text = read_file(path);
    for (int i = 0; i < 300; ++i) {
      std::string mutant = text;
      for (int k = 0; k < 3; ++k) {
        size_t at = random() % mutant.size();
        switch (random() % 3) {
          case 0:
            mutant[at] = static_cast<char>(random());
            break;
          case 1:
            mutant.erase(at, random() % 20);
            break;
          default:
            mutant.insert(at, text.substr(random() % text.size(), random() % 20));
        }
      }
      expect_total(mutant);
    }
  }
}

TEST(Totality, GarbageAndNul) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    std::string text = i % 2 ? "" : kernel("");
    for (size_t n = random() % 200; n-- > 0;) text += static_cast<char>(random());
    expect_total(text);
  }
  expect_total(std::string("\0\0\0", 3));
  expect_total(kHeader + std::string("\0x", 2));
  EXPECT_EQ(error_of(kHeader + std::string("\0\0", 2)), "") << "NUL bytes at the end are dropped";
}

TEST(Totality, DeepNestingIsAnError) {
  std::string many(100000, '(');
  EXPECT_NE(error_of(kernel("mov.u32 %r1, " + many + ";")).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of(kernel("mov.u32 %r1, " + std::string(100000, '-') + "1;")), "");
  EXPECT_NE(error_of(kernel("mov.u32 %r1, 1" +
                            [] {
                              std::string s;
                              for (int i = 0; i < 50000; ++i) s += "?1:1";
                              return s;
                            }() +
                            ";")),
            "");
  EXPECT_NE(error_of(kernel(std::string(100000, '{'))), "");
  EXPECT_NE(error_of(kHeader + ".global .u32 x[2] = " + std::string(100000, '{') + ";"), "");
  EXPECT_NE(error_of(kernel("mov.b64 %d1, " + std::string(100000, '{') + ";")), "");
  EXPECT_NE(error_of(kernel("ld.u32 %r1, " + std::string(100000, '[') + ";")), "");
}

TEST(Totality, HugeNumbersAreErrorsNotMemory) {
  EXPECT_EQ(error_of(kernel(".reg .b32 %x<4000000000>;")),
            "test:7:14: 4000000000 names are more than 1048576");
  EXPECT_NE(error_of(kHeader + ".global .u64 x[0xffffffffffffffff];"), "");
  EXPECT_NE(error_of(kHeader + ".global .u64 x[1000000000][1000000000][1000000000];"), "");
  EXPECT_NE(error_of(kHeader +
                     ".global .u8 x[1000000][1000000] = {{1},{2},{3}, {4}, {5}, {6}, {7}, {8},{9},"
                     "{1},{2},{3}, {4}, {5}, {6}, {7}, {8},{9},{1},{2},{3}, {4}, {5}, {6}, {7}, {8},{9}};"),
            "");
  EXPECT_NE(error_of(kHeader + ".file 4000000000 \"x\""), "");
  EXPECT_NE(error_of(kHeader + ".global .align 3 .u32 x;"), "");
  EXPECT_EQ(error_of(kHeader + ".global .u8 x[4000000000];"), "");
}

TEST(Totality, LongWordsAndLines) {
  expect_total(kernel("add" + [] {
    std::string s;
    for (int i = 0; i < 10000; ++i) s += ".sat";
    return s;
  }() + " %r1;"));
  expect_total(kernel(std::string(1000000, 'a') + " %r1;"));
  EXPECT_LT(error_of(kernel(std::string(1000000, 'a') + " %r1;")).size(), 200u);
}

}  // namespace
}  // namespace assay::ptx
