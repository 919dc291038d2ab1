// Whether yes-or-no draws are distributed as they should be: their frequency, overall and in parts, and their
// independence of each other.
//
// Example:
//
//     Draws draws{.name = "keep", .extents = {32, 128}};
//     draws.low = draws.high = std::vector<double>(32 * 128, 0.9);  // of a yes, by element
//     draws.outcome.assign(32 * 128, 1);                            // 1: yes, 0: no, -1: not known
//     if (const std::optional<FrequencyTest> odd = least_probable(draws)) use(odd->text);
//
// Every test is a sum of independent draws, and its probability is bounded by Chernoff: for every t > 0,
//
//     P(sum >= s)  <=  exp(sum log(1 + p (e^t - 1)) - t s)
//
// This holds for every number of draws and for draws of different probabilities; nothing is approximated. So the
// probability that right draws fail is at most the number of tests times e^kChoiceGate (thresholds.h). Pairs of draws
// are tested for being equal; the pairs of one test have no draw in common, so they are independent, too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/reference.h"

namespace assay::judge {

// Flags of an element of the reference whose probability is unknown.
inline constexpr uint8_t kNotKnown =
    reference::kUnspecified | reference::kUndecided | reference::kNonfiniteInput;

struct Draws {
  std::string name;
  std::vector<int64_t> extents;
  std::vector<double> low, high;  // the probability of a yes is between these, by element
  std::vector<int8_t> outcome;    // 1, 0; -1: not known
  std::string yes = "true";       // what an outcome of 1 is called
};

// Adds to `same` whether the i-th draw of one and the k-th of the other, which are independent, have the same outcome.
void add_agreement(Draws& same, const Draws& first, std::size_t i, const Draws& second, std::size_t k);

// One test: how many of the draws were a yes, and how many are expected.
struct FrequencyTest {
  double log_p = 0;  // natural log of an upper bound of the probability that right draws are so odd
  std::string text;
};

// The log of a bound of the probability that independent draws of these probabilities have so many a yes or more; of
// `fewer`, so many or fewer. 0 where that is no surprise.
double tail(std::span<const double> probabilities, double count, bool fewer);

// How many tests are made of draws of these extents, at most: each may fail by chance.
int most_tests(const std::vector<int64_t>& extents);

// The least probable of all tests; none where no test is less probable than `gate`, a natural log.
std::optional<FrequencyTest> least_probable(const Draws& draws, double gate);
std::optional<FrequencyTest> least_probable(const Draws& draws);  // kChoiceGate

}  // namespace assay::judge
