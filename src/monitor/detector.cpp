#include "monitor/detector.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::monitor {

namespace {

// ln(1 + e^x): M grows beyond what a double can hold.
double log_one_plus_exp(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

}  // namespace

Detector::Detector(double samples) : log_limit_(std::log(samples)) {
  reset();
}

void Detector::reset() {
  logs_.fill(-std::numeric_limits<double>::infinity());
  is_alarmed_ = false;
}

bool Detector::add(uint64_t differing, double mean) {
  for (std::size_t i = 0; i < kRatios.size(); ++i)
    logs_[i] = log_one_plus_exp(logs_[i]) + static_cast<double>(differing) * std::log(kRatios[i]) -
               mean * (kRatios[i] - 1);
  is_alarmed_ = is_alarmed_ || log_average() >= log_limit_;
  return is_alarmed_;
}

double Detector::log_average() const {
  const double largest = *std::max_element(logs_.begin(), logs_.end());
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const double one : logs_) sum += std::exp(one - largest);
  return largest + std::log(sum / static_cast<double>(logs_.size()));
}

double Detector::log10_evidence() const {
  return log_average() / std::log(10.0);
}

}  // namespace assay::monitor
