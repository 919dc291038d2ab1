#include "train/sequential.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace assay::train {

namespace {

// No step counts for more: beyond this a probability says more about the model of the noise than about the candidate.
constexpr double kSmallestProbability = 1e-12;

}  // namespace

SequentialTest::SequentialTest(std::vector<std::string> signals, double false_alarms)
    : signals_(std::move(signals)),
      log10_products_(signals_.size(), 0),
      threshold_(-std::log10(false_alarms)) {}

void SequentialTest::add(const std::vector<double>& probabilities) {
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    const double p = std::max(probabilities[i], kSmallestProbability);
    log10_products_[i] -= std::log10(2.0) + std::log10(p) / 2;
  }
  combine();
  ++steps_;
}

void SequentialTest::resume(const std::vector<double>& log10_products, int steps) {
  log10_products_ = log10_products;
  steps_ = steps;
  combine();
}

void SequentialTest::combine() {
  const double top = log10_products_[strongest()];
  double total = 0;
  for (const double product : log10_products_) total += std::pow(10, product - top);
  log10_evidence_ = top + std::log10(total / static_cast<double>(signals_.size()));
}

std::size_t SequentialTest::strongest() const {
  return static_cast<std::size_t>(std::ranges::max_element(log10_products_) - log10_products_.begin());
}

// With θ = atan(t / √ν), the tail has a closed form: a finite sum of powers of cos θ (Abramowitz and Stegun 26.7.3, 26.7.4).
// Far out, where that sum cancels, the tail is its first term: Γ((ν + 1) / 2) / (√π Γ(ν / 2)) · ν^(ν/2 - 1) · t^-ν · 2.
double probability_of(double times, int draws) {
  if (!(times > 0)) return 1;
  if (std::isinf(times)) return 0;
  const double nu = draws, theta = std::atan(times / std::sqrt(nu));
  const double c = std::cos(theta), s = std::sin(theta);
  double inside = 0;
  if (draws % 2 == 1) {
    double term = c, sum = draws > 1 ? c : 0;
    for (int k = 3; k <= draws - 2; k += 2) sum += term *= c * c * (k - 1) / k;
    inside = 2 / std::acos(-1.0) * (theta + s * sum);
  } else {
    double term = 1, sum = 1;
    for (int k = 2; k <= draws - 2; k += 2) sum += term *= c * c * (k - 1) / k;
    inside = s * sum;
  }
  const double tail = 1 - inside;
  constexpr double kCancels = 1e-9;
  if (tail > kCancels) return tail;
  return 2 *
         std::exp(std::lgamma((nu + 1) / 2) - std::lgamma(nu / 2) + (nu / 2 - 1) * std::log(nu) -
                  nu * std::log(times)) /
         std::sqrt(std::acos(-1.0));
}

}  // namespace assay::train
