// How errors are shown: the place, the line, the caret.
#include "base/diagnostic.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Diagnostic, UnderlinesTheWordAtTheColumn) {
  const Error error{"`xx` is not defined", "c.toml", 23, 8, "y[i] = xx[i]"};
  EXPECT_EQ(diagnostic(error),
            "c.toml:23:8: error: `xx` is not defined\n"
            "   23 | y[i] = xx[i]\n"
            "      |        ^~");
}

TEST(Diagnostic, UnderlinesStringsWholeAndSignsAlone) {
  EXPECT_TRUE(diagnostic({"m", "c", 1, 9, R"(dtype = "bf61" # no)"}).ends_with("|         ^~~~~~"));
  EXPECT_TRUE(diagnostic({"m", "c", 1, 9, R"(dtype = "bf61)"}).ends_with("|         ^"));
  EXPECT_TRUE(diagnostic({"m", "c", 1, 1, R"(""")"}).ends_with("| ^~~"));
  EXPECT_TRUE(diagnostic({"m", "c", 1, 3, "a ** b"}).ends_with("|   ^"));
}

TEST(Diagnostic, PointsPastTheEndOfALine) {
  EXPECT_TRUE(diagnostic({"m", "c", 1, 6, "y = x"}).ends_with("| y = x\n      |      ^"));
  EXPECT_TRUE(diagnostic({"m", "c", 1, 90, "y = x"}).ends_with("|      ^"));
}

TEST(Diagnostic, CountsCharactersNotBytes) {
  EXPECT_TRUE(diagnostic({"m", "c", 1, 5, "\"\xC3\xA9\" = x"}).ends_with("|     ^"));
  EXPECT_TRUE(diagnostic({"m", "c", 1, 2, " \xC3\xA9t\xC3\xA9 "}).ends_with("|  ^~~"));
}

TEST(Diagnostic, KeepsTabsBeforeTheCaret) {
  EXPECT_TRUE(diagnostic({"m", "c", 1, 4, "\ty\tz"}).ends_with("| \t \t^"));
}

TEST(Diagnostic, ShowsAsMuchAsIsKnown) {
  EXPECT_EQ(diagnostic({"no contract"}), "assay: no contract");
  EXPECT_EQ(diagnostic({"cannot be read", "c.toml"}), "assay: c.toml: cannot be read");
  EXPECT_EQ(diagnostic({"wrong", "c.toml", 7}), "c.toml:7: error: wrong");
  EXPECT_EQ(diagnostic({"wrong", "c.toml", 7, 0, "y = x"}), "c.toml:7: error: wrong\n    7 | y = x");
}

TEST(Diagnostic, FindsTheLinesOfAText) {
  EXPECT_EQ(line_of("a\nb\r\n\nd", 1), "a");
  EXPECT_EQ(line_of("a\nb\r\n\nd", 2), "b");
  EXPECT_EQ(line_of("a\nb\r\n\nd", 3), "");
  EXPECT_EQ(line_of("a\nb\r\n\nd", 4), "d");
  EXPECT_EQ(line_of("a\nb\r\n\nd", 5), "");
}

}  // namespace
}  // namespace assay
