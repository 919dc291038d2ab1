// Evidence that a kernel no longer computes what it was certified to compute, with a stated rate of false alarms.
//
// Example:
//
//     Detector detector(1e9);                        // at least 1e9 samples between false alarms, on average
//     if (detector.add(3, 0.0256)) use("alarm");     // 3 elements differ where 0.0256 were to be expected
//     use(detector.log10_evidence());
//
// A sample is a handful of elements of one call. An element differs when it is not the correct rounding of the exact
// value; the error budget bounds how many do so on average, `mean`, whatever the data. Then, for every ratio r > 1,
//
//     e = exp(k ln r - mean (r - 1))     with k elements that differ
//
// has an expectation of at most 1 as long as the kernel keeps to its budget: for independent elements E[r^k] is the product
// of 1 + p (r - 1), which is at most exp(sum of p (r - 1)). So M, updated as (M + 1) e, grows on average by at most 1 per
// sample, and the mean time until it reaches c is at least c (an e-detector: Shin, Ramdas and Rinaldo, 2022). The average
// of several ratios is an e-detector, too: small ratios notice many slightly wrong samples, large ones a single bad one.
//
// Elements must be independent of each other given the data. Those that share a rounding are not: take one per row.
#pragma once

#include <array>
#include <cstdint>

namespace assay::monitor {

class Detector {
 public:
  static constexpr std::array<double, 5> kRatios = {1.5, 3, 10, 100, 1000};

  // `samples`: the mean number of samples until a false alarm is at least this.
  explicit Detector(double samples);

  // Adds a sample; true: an alarm, and every later sample is one until reset(). `mean` is positive.
  bool add(uint64_t differing, double mean);
  bool is_alarmed() const { return is_alarmed_; }
  // Of the average over the ratios; an alarm is raised at log10 of the constructor's argument.
  double log10_evidence() const;
  void reset();

 private:
  double log_limit_;
  std::array<double, kRatios.size()> logs_;  // ln M, by ratio; -infinity for 0
  bool is_alarmed_ = false;

  double log_average() const;
};

}  // namespace assay::monitor
