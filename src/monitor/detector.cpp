#include "monitor/detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace assay::monitor {

namespace {

// ln(e^a + e^b): both grow beyond what a double can hold.
double log_of_sum(double a, double b) {
  const double larger = std::max(a, b), smaller = std::min(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(smaller - larger));
}

double log_of_average(const std::array<double, Detector::kRatios.size()>& logs) {
  double sum = -std::numeric_limits<double>::infinity();
  for (const double one : logs) sum = log_of_sum(sum, one);
  return sum - std::log(static_cast<double>(logs.size()));
}

}  // namespace

Detector::Detector(double samples) : log_limit_(std::log(samples)) {
  reset();
}

void Detector::reset() {
  logs_.fill(-std::numeric_limits<double>::infinity());
  weighted_.fill(-std::numeric_limits<double>::infinity());
  samples_ = 0;
  is_alarmed_ = false;
}

bool Detector::add(uint64_t differing, double mean) {
  const auto number = static_cast<double>(++samples_);
  const double log_weight = -std::log(number) - std::log1p(number);
  for (std::size_t i = 0; i < kRatios.size(); ++i) {
    const double gain = static_cast<double>(differing) * std::log(kRatios[i]) - mean * (kRatios[i] - 1);
    logs_[i] = log_of_sum(logs_[i], 0) + gain;
    weighted_[i] = log_of_sum(weighted_[i], log_weight) + gain;
  }
  is_alarmed_ = is_alarmed_ || log_of_average(logs_) >= log_limit_;
  return is_alarmed_;
}

double Detector::log10_evidence() const {
  return log_of_average(logs_) / std::numbers::ln10;
}

// What is left of the weights, 1 / (samples + 1), is that of changes yet to come.
double Detector::log10_e_value() const {
  return log_of_sum(log_of_average(weighted_), -std::log1p(static_cast<double>(samples_))) /
         std::numbers::ln10;
}

}  // namespace assay::monitor
