#include "base/symbol.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Symbol, AreNamedAsPeopleWriteThem) {
  EXPECT_EQ(demangled("_Z6reduceIfEvPKT_i"), "void reduce<float>(float const*, int)");
  EXPECT_EQ(plain_name("_Z6reduceIfEvPKT_i"), "reduce<float>");
  EXPECT_EQ(function_name("_ZN4tile4loadILi64EEEvPf"), "load<64>");
}

// The names of C functions, which the library that demangles would read as types.
TEST(Symbol, ANameThatIsNotMangledStays) {
  for (const char* name : {"f", "i", "v", "b", "Pf", "main", "axpy"}) {
    EXPECT_EQ(demangled(name), name);
    EXPECT_EQ(plain_name(name), name);
    EXPECT_EQ(short_name(name), name);
  }
}

}  // namespace
}  // namespace assay
