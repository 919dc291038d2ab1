// Where the characters of a formula are in the contract file, however the string is written.
#include <fmt/format.h>

#include "contract/toml.h"
#include "support.h"

namespace assay::contract {
namespace {

using namespace testing;

// "line:column" of the first `?` in the value of `s`.
std::string place_of_mark(const std::string& toml) {
  const Result<TomlValue> root = parse_toml(toml, "t");
  EXPECT_TRUE(root) << root.error().text();
  const TomlValue& string = *root->find("s");
  const std::vector<Place> places = content_places(toml, string.place, string.string);
  EXPECT_EQ(places.size(), string.string.size() + 1);
  const Place place = places[string.string.find('?')];
  return fmt::format("{}:{}", place.line, place.column);
}

TEST(Places, OfPlainStrings) {
  EXPECT_EQ(place_of_mark("s = \"a ?\""), "1:8");
  EXPECT_EQ(place_of_mark("\n  s = 'a ?'"), "2:10");
}

TEST(Places, OfStringsOfSeveralLines) {
  EXPECT_EQ(place_of_mark("s = \"\"\"\na\n  ?\"\"\""), "3:3");
  EXPECT_EQ(place_of_mark("s = \"\"\"a ?\n\"\"\""), "1:10");
  EXPECT_EQ(place_of_mark("s = '''\na\n  ?'''"), "3:3");
  EXPECT_EQ(place_of_mark("s = \"\"\"\r\na\r\n  ?\r\n\"\"\""), "3:3");
}

TEST(Places, AfterEscapes) {
  EXPECT_EQ(place_of_mark(R"(s = "a\n?")"), "1:9");
  EXPECT_EQ(place_of_mark(R"(s = "\u00e9 \U0001F600?")"), "1:23");
  EXPECT_EQ(place_of_mark("s = 'a\\n?'"), "1:9");  // no escape in a literal string
  EXPECT_EQ(place_of_mark("s = \"\"\"\na \\\n\n   b?\"\"\""), "4:5");
}

TEST(Places, AfterCharactersOfSeveralBytes) {
  EXPECT_EQ(place_of_mark("s = \"\xC3\xA9?\""), "1:7");
}

// The same mistake, `xx`, in formulas that are written in different ways.
TEST(Places, OfMistakesInFormulas) {
  const auto error_in = [](const std::string& formula) {
    const Result<Contract> contract =
        parse(contract_text("[tensors.y]\ndtype = \"f32\"\nshape = [1]\nrole = \"out\"\n"
                            "[reference]\nformula = " +
                            formula + "\n"),
              "c.toml");
    EXPECT_FALSE(contract) << formula;
    return contract
               ? std::string()
               : contract.error().source_line.substr(static_cast<std::size_t>(contract.error().column) - 1);
  };
  EXPECT_EQ(error_in("\"y = xx(1)\""), "xx(1)\"");
  EXPECT_EQ(error_in("\"a = 1\\ny = xx(1)\""), "xx(1)\"");
  EXPECT_EQ(error_in("\"\"\"\na = 1\ny = xx(1)\n\"\"\""), "xx(1)");
  EXPECT_EQ(error_in("\"\"\"\na = 1 + \\\n  xx(1)\ny = a\n\"\"\""), "xx(1)");
}

}  // namespace
}  // namespace assay::contract
