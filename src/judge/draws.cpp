#include "judge/draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "judge/thresholds.h"

namespace assay::judge {
namespace {

constexpr int kParts = 16;     // of the elements in a row, and of the last dimension
constexpr int kBins = 8;       // of probabilities
constexpr int kMostLags = 64;  // distances at which draws are compared
// The bound of a sum that is d deviations off is about exp(-d²/2), and not less: so many of them, of those that the gate
// asks for, are worth computing it.
constexpr double kWorthBounding = 0.7;

// A sum of yes-or-no draws, each with a probability between two ends.
struct Sum {
  std::vector<double> low, high;
  double count = 0;

  void add(double l, double h, bool yes) {
    low.push_back(l);
    high.push_back(h);
    count += yes;
  }
  static double expected(const std::vector<double>& p) {
    double sum = 0;
    for (const double one : p) sum += one;
    return sum;
  }
  double expected() const { return (expected(low) + expected(high)) / 2; }
  // The log of a bound of the probability of a count so far off, on either side.
  double log_p(double gate) const {
    double mean_low = 0, mean_high = 0, variance = 0;
    for (std::size_t i = 0; i < low.size(); ++i) {
      mean_low += low[i];
      mean_high += high[i];
      variance += std::max(low[i] * (1 - low[i]), high[i] * (1 - high[i]));
    }
    const double far = kWorthBounding * std::sqrt(-2 * gate * variance);
    if (count > mean_high + far) return tail(high, count, false);
    if (count < mean_low - far) return tail(low, count, true);
    return 0;
  }
};

std::string chance(double log_p) {
  if (std::isinf(log_p)) return "none";
  const double power = -log_p / std::log(10.0);
  return fmt::format("less than 1 in 10^{:.0f}", std::floor(power));
}

std::vector<int64_t> lags_of(const std::vector<int64_t>& extents) {
  std::vector<int64_t> lags;
  int64_t stride = 1, count = 1;
  for (const int64_t extent : extents) count *= extent;
  const auto add = [&](int64_t lag) {
    if (lag >= 1 && 2 * lag <= count && static_cast<int>(lags.size()) < kMostLags &&
        std::find(lags.begin(), lags.end(), lag) == lags.end())
      lags.push_back(lag);
  };
  for (std::size_t i = extents.size(); i-- > 0;) {
    add(stride);
    stride *= extents[i];
  }
  for (int64_t lag = 1; lag <= count / 2; lag *= 2) add(lag);
  for (const int64_t lag : {3, 5, 7, 31, 33}) add(lag);
  return lags;
}

// "the one in the next row", where that is the distance.
std::string distance(const Draws& draws, int64_t lag) {
  int64_t stride = 1;
  for (std::size_t i = draws.extents.size(); i-- > 0;) {
    if (lag == stride && i + 1 < draws.extents.size() && stride > 1)
      return fmt::format("the next along dimension {}", i + 1);
    stride *= draws.extents[i];
  }
  return lag == 1 ? "the next one" : fmt::format("the one {} places later", lag);
}

class Search {
 public:
  Search(const Draws& draws, double gate) : draws_(draws), gate_(gate) {
    for (std::size_t i = 0; i < draws.outcome.size(); ++i)
      if (draws.outcome[i] >= 0) known_.push_back(static_cast<int64_t>(i));
  }

  std::optional<FrequencyTest> run() {
    by_group(
        1, [](int64_t, std::size_t) { return 0; }, [](int) { return std::string(); });
    by_group(
        kBins,
        [&](int64_t i, std::size_t) {
          const double p = (draws_.low[at(i)] + draws_.high[at(i)]) / 2;
          return std::clamp(static_cast<int>(p * kBins), 0, kBins - 1);
        },
        [](int bin) {
          return fmt::format(" of probability {:.3g} to {:.3g}", bin / double{kBins},
                             (bin + 1) / double{kBins});
        });
    by_group(
        kParts, [&](int64_t, std::size_t n) { return static_cast<int>(n * kParts / known_.size()); },
        [](int part) { return fmt::format(" in part {} of {}", part + 1, kParts); });
    if (const int64_t columns = draws_.extents.empty() ? 1 : draws_.extents.back();
        columns >= 2 * kParts && draws_.extents.size() > 1)
      by_group(
          kParts, [&](int64_t i, std::size_t) { return static_cast<int>(i % columns * kParts / columns); },
          [&](int part) {
            return fmt::format(" at {} to {} of the last dimension", part * columns / kParts,
                               (part + 1) * columns / kParts - 1);
          });
    for (const int64_t lag : lags_of(draws_.extents)) pairs(lag);
    return worst_;
  }

 private:
  static std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

  void offer(const Sum& sum, const std::function<std::string()>& text) {
    const double log_p = sum.log_p(gate_);
    if (log_p > gate_ || (worst_ && log_p >= worst_->log_p)) return;
    worst_ = FrequencyTest{log_p, text() + "; the probability of that is " + chance(log_p)};
  }

  template <class Group, class Name>
  void by_group(int groups, Group&& group_of, Name&& name) {
    std::vector<Sum> sums(at(groups));
    for (std::size_t n = 0; n < known_.size(); ++n) {
      const int64_t i = known_[n];
      sums[at(group_of(i, n))].add(draws_.low[at(i)], draws_.high[at(i)], draws_.outcome[at(i)] == 1);
    }
    for (int g = 0; g < groups; ++g) {
      const Sum& sum = sums[at(g)];
      offer(sum, [&] {
        return fmt::format("{}: {:.0f} of {} draws{} are {}, where {:.4g} are expected", draws_.name,
                           sum.count, sum.low.size(), name(g), draws_.yes, sum.expected());
      });
    }
  }

  // Draws i and i + lag, i from every other stretch of that length: no draw is in two pairs.
  void pairs(int64_t lag) {
    Sum sum;
    const auto count = static_cast<int64_t>(draws_.outcome.size());
    for (int64_t first = 0; first + lag < count; first += 2 * lag)
      for (int64_t i = first; i < std::min(first + lag, count - lag); ++i) {
        const std::size_t a = at(i), b = at(i + lag);
        if (draws_.outcome[a] < 0 || draws_.outcome[b] < 0) continue;
        const double p = (draws_.low[a] + draws_.high[a]) / 2, q = (draws_.low[b] + draws_.high[b]) / 2;
        const double room = (draws_.high[a] - draws_.low[a] + draws_.high[b] - draws_.low[b]) / 2;
        const double same = p * q + (1 - p) * (1 - q);
        sum.add(std::max(0.0, same - room), std::min(1.0, same + room),
                draws_.outcome[a] == draws_.outcome[b]);
      }
    offer(sum, [&] {
      return fmt::format("{}: draws are not independent: {:.0f} of {} equal {}, where {:.4g} are expected",
                         draws_.name, sum.count, sum.low.size(), distance(draws_, lag), sum.expected());
    });
  }

  const Draws& draws_;
  const double gate_;
  std::vector<int64_t> known_;
  std::optional<FrequencyTest> worst_;
};

}  // namespace

void add_agreement(Draws& same, const Draws& first, std::size_t i, const Draws& second, std::size_t k) {
  const double p = (first.low[i] + first.high[i]) / 2, q = (second.low[k] + second.high[k]) / 2;
  const double room = (first.high[i] - first.low[i] + second.high[k] - second.low[k]) / 2;
  const double equal = p * q + (1 - p) * (1 - q);
  same.low.push_back(std::max(0.0, equal - room));
  same.high.push_back(std::min(1.0, equal + room));
  const bool known = first.outcome[i] >= 0 && second.outcome[k] >= 0;
  same.outcome.push_back(static_cast<int8_t>(known ? first.outcome[i] == second.outcome[k] : -1));
}

double tail(std::span<const double> probabilities, double count, bool fewer) {
  // Fewer of one outcome are more of the other.
  const auto n = static_cast<double>(probabilities.size());
  const double wanted = fewer ? n - count : count;
  const auto p = [&](std::size_t i) { return fewer ? 1 - probabilities[i] : probabilities[i]; };
  double mean = 0, possible = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    mean += p(i);
    possible += p(i) > 0;
  }
  if (wanted <= mean) return 0;
  if (wanted > possible) return -std::numeric_limits<double>::infinity();  // a draw that cannot be
  // The best t is where the tilted mean is the count. Any t gives a bound, so a rough one will do.
  double low = 0, high = 1;
  const auto tilted = [&](double t) {
    const double e = std::exp(t);
    double sum = 0;
    for (std::size_t i = 0; i < probabilities.size(); ++i) sum += p(i) * e / (1 + p(i) * (e - 1));
    return sum;
  };
  constexpr double kMostTilt = 40;
  while (high < kMostTilt && tilted(high) < wanted) high *= 2;
  constexpr int kHalvings = 12;
  for (int step = 0; step < kHalvings; ++step) {
    const double middle = (low + high) / 2;
    (tilted(middle) < wanted ? low : high) = middle;
  }
  double log_p = -high * wanted;
  for (std::size_t i = 0; i < probabilities.size(); ++i) log_p += std::log1p(p(i) * std::expm1(high));
  return std::min(0.0, log_p);
}

int most_tests(const std::vector<int64_t>& extents) {
  return 1 + kBins + 2 * kParts + static_cast<int>(lags_of(extents).size());
}

std::optional<FrequencyTest> least_probable(const Draws& draws, double gate) {
  return Search(draws, gate).run();
}

std::optional<FrequencyTest> least_probable(const Draws& draws) {
  return least_probable(draws, kChoiceGate);
}

}  // namespace assay::judge
