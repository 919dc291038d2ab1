#include "judge/gates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace assay::judge::testing {
namespace {

TEST(Gates, TheNearestOnEachSideIsKept) {
  Margins margins;
  EXPECT_FALSE(margins.of(Gate::Bound).measured());
  for (const double share : {0.5, 0.9, 0.2}) margins.add(Gate::Bound, share, false);
  for (const double share : {7.0, 1.5, 3.0}) margins.add(Gate::Bound, share, true);
  margins.add(Gate::Bound, std::nan(""), true);
  EXPECT_EQ(margins.of(Gate::Bound).below, 0.9);
  EXPECT_EQ(margins.of(Gate::Bound).beyond, 1.5);
  EXPECT_EQ(margins.of(Gate::Bound).largest, 7);
  EXPECT_FALSE(margins.of(Gate::Energy).measured());

  Margins others;
  others.add(Gate::Bound, 0.95, false);
  others.add(Gate::Bound, 1.2, true);
  margins.add(others);
  margins.add(Margins());  // changes nothing
  EXPECT_EQ(margins.of(Gate::Bound).below, 0.95);
  EXPECT_EQ(margins.of(Gate::Bound).beyond, 1.2);
  EXPECT_EQ(margins.of(Gate::Bound).largest, 7);
}

TEST(Gates, OnlyConditionsThatDecideAreRecorded) {
  Margins margins;
  const Condition all[] = {at_least(Gate::Sure, 0.9, 0.6), at_most(Gate::Coherence, 0.1, 0.4)};
  EXPECT_TRUE(all_hold(all, margins));
  EXPECT_DOUBLE_EQ(margins.of(Gate::Sure).beyond, 1.5);
  EXPECT_DOUBLE_EQ(margins.of(Gate::Coherence).below, 0.25);

  // One fails: it decides, and the other does not.
  const Condition one[] = {at_least(Gate::Sure, 0.3, 0.6), at_most(Gate::Coherence, 0.3, 0.4)};
  EXPECT_FALSE(all_hold(one, margins));
  EXPECT_DOUBLE_EQ(margins.of(Gate::Sure).below, 0.5);
  EXPECT_DOUBLE_EQ(margins.of(Gate::Coherence).below, 0.25);

  // Both fail: neither would have changed anything.
  const Condition none[] = {at_least(Gate::Sure, 0.5, 0.6), at_most(Gate::Coherence, 0.5, 0.4)};
  EXPECT_FALSE(all_hold(none, margins));
  EXPECT_DOUBLE_EQ(margins.of(Gate::Sure).below, 0.5);
  EXPECT_EQ(margins.of(Gate::Coherence).beyond, std::numeric_limits<double>::infinity());
}

TEST(Gates, NothingHoldsForWhatIsNoNumber) {
  EXPECT_FALSE(at_most(Gate::RoundingSize, std::nan(""), 1).holds);
  EXPECT_FALSE(at_least(Gate::Sure, std::nan(""), 1).holds);
}

TEST(Gates, TheirNamesAreThoseOfConstants) {
  EXPECT_EQ(constant_of(Gate::Bound), "kBoundGate");
  EXPECT_EQ(constant_of(Gate::OnePassDistance), "kOnePassDistance");
}

}  // namespace
}  // namespace assay::judge::testing
