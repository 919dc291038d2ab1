// How often right draws are called odd, and which wrong ones are found: the tests of judge/draws.h on simulated calls.
//
//   draws [CALLS]     calls of each kind, 20000 by default
//
// Prints the tables of docs/measurements/draws.md.
#include "judge/draws.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

#include "judge/thresholds.h"

namespace {

using assay::judge::Draws;

struct CallKind {
  const char* name;
  std::vector<int64_t> extents;
  std::function<double(int64_t, double)> probability;  // of an element, from a number of its own
};

// One call of a right kernel: every draw has its probability, and is independent of the others.
Draws right_call(const CallKind& kind, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  Draws draws;
  draws.name = kind.name;
  draws.extents = kind.extents;
  int64_t count = 1;
  for (const int64_t extent : kind.extents) count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    const double p = kind.probability(i, uniform(random));
    draws.low.push_back(p);
    draws.high.push_back(p);
    draws.outcome.push_back(uniform(random) < p);
  }
  return draws;
}

void false_alarms(int calls) {
  const CallKind kinds[] = {
      {"dropout, q = 0.5, 20 x 50", {20, 50}, [](int64_t, double) { return 0.5; }},
      {"dropout, q = 0.9, 20 x 50", {20, 50}, [](int64_t, double) { return 0.9; }},
      {"dropout, q = 0.99, 3000", {3000}, [](int64_t, double) { return 0.99; }},
      {"stochastic rounding, 1000", {1000}, [](int64_t, double u) { return u; }},
      {"drop path, q = 0.75, 64", {64}, [](int64_t, double) { return 0.75; }},
  };
  constexpr std::array<double, 4> kShares = {1e-1, 1e-2, 1e-3, 1e-4};
  fmt::print(
      "| draws | tests | bound 0.1 | 0.01 | 0.001 | 0.0001 | the gate |\n| --- | --- | --- | --- | --- | --- "
      "| --- |\n");
  for (const CallKind& kind : kinds) {
    const int tests = 2 * assay::judge::most_tests(kind.extents);
    fmt::print("| {} | {} |", kind.name, tests);
    std::mt19937_64 random(12345);
    std::array<int, 5> odd{};
    for (int call = 0; call < calls; ++call) {
      const Draws draws = right_call(kind, random);
      const auto worst = assay::judge::least_probable(draws, std::log(kShares[0] / tests));
      if (!worst) continue;
      for (std::size_t i = 0; i < kShares.size(); ++i) odd[i] += worst->log_p <= std::log(kShares[i] / tests);
      odd[4] += worst->log_p <= assay::judge::kChoiceGate;
    }
    for (const int count : odd) fmt::print(" {} |", count);
    fmt::print("\n");
  }
}

// The share of calls in which draws of another probability are found.
void found(int calls) {
  fmt::print(
      "\n| draws of probability 0.9 that are yes with | n = 1,000 | 10,000 | 100,000 |\n| --- | --- | --- | "
      "--- |\n");
  for (const double p : {0.8, 0.85, 0.88, 0.89, 0.895}) {
    fmt::print("| {} |", p);
    for (const int64_t n : {1000, 10000, 100000}) {
      std::mt19937_64 random(7);
      int odd = 0;
      for (int call = 0; call < calls; ++call) {
        CallKind kind{"keep", {n}, [p](int64_t, double) { return p; }};
        Draws draws = right_call(kind, random);
        draws.low.assign(draws.low.size(), 0.9);
        draws.high = draws.low;
        odd += assay::judge::least_probable(draws).has_value();
      }
      fmt::print(" {:.0f} % |", 100.0 * odd / calls);
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 20000;
  fmt::print("{} calls of each kind\n\n", calls);
  false_alarms(calls);
  found(40);
  return 0;
}
