// Random numbers are those of SplitMix64, and the same everywhere.
#include "base/random.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Random, IsSplitMix64) {
  // The first numbers of the reference implementation from seed 1234567.
  uint64_t state = 1234567;
  for (const uint64_t expected : {6457827717110365317ull, 3203168211198807973ull, 9817491932198370423ull})
    EXPECT_EQ(scramble(state += kGoldenStep), expected);
  EXPECT_EQ(mix(1234567), 6457827717110365317ull);
}

TEST(Random, StaysInItsRange) {
  Random random(1);
  bool low = false, high = false;
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const int64_t draw = random.between(-2, 3);
    ASSERT_TRUE(draw >= -2 && draw <= 3);
    low |= draw == -2;
    high |= draw == 3;
    const double uniform = random.uniform();
    ASSERT_TRUE(uniform >= 0 && uniform < 1);
    const double normal = random.normal();
    sum += normal;
    squares += normal * normal;
  }
  EXPECT_TRUE(low && high);
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(squares / kDraws, 1, 0.05);
}

}  // namespace
}  // namespace assay
