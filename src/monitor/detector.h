// Evidence that a kernel no longer computes what it was certified to compute, with a stated rate of false alarms.
//
// Example:
//
//     Detector detector(1e9);                        // at least 1e9 samples between false alarms, on average
//     if (detector.add(3, 0.0256)) use("alarm");     // 3 elements differ where 0.0256 were to be expected
//     use(detector.log10_evidence(), detector.log10_e_value());
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
// M is no e-value: it grows with the number of samples even if the kernel is right. For a fleet, where evidence from many
// places is combined (fleet.h), there is an e-value as well: the same product, begun at every sample s with a weight of
// 1 / (s (s + 1)). The weights add up to 1, so its expectation is at most 1 at any time, however long the watch has lasted.
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
  // Of an e-value against "the kernel has kept to its budget in all samples so far", valid whenever it is looked at.
  double log10_e_value() const;
  uint64_t samples() const { return samples_; }
  void reset();

 private:
  double log_limit_;
  std::array<double, kRatios.size()> logs_;      // ln M, by ratio; -infinity for 0
  std::array<double, kRatios.size()> weighted_;  // the same of the e-value
  uint64_t samples_ = 0;
  bool is_alarmed_ = false;
};

}  // namespace assay::monitor
