// When a difference is more than noise: a test that may stop at any step.
//
// Each step gives a probability p for each of a fixed list of signals: how likely a right candidate is to deviate as much
// as was seen, or more. e = 1 / (2 √p) turns it into evidence whose mean over right candidates is at most 1, and so is
// that of the product over steps and of the average over signals (Vovk and Wang 2021). By Ville's inequality the average
// ever reaches 1 / a with probability a at most, however often one looks and whenever one stops.
//
// Example:
//
//     SequentialTest test({"gain of the embedding", "error of the embedding"}, 1e-6);
//     test.add({1e-9, 0.4});
//     if (test.rejects()) use(test.strongest());
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay::train {

class SequentialTest {
 public:
  SequentialTest(std::vector<std::string> signals, double false_alarms);

  // The next step: a probability for each signal, 1 for one that says nothing.
  void add(const std::vector<double>& probabilities);
  bool rejects() const { return log10_evidence_ >= threshold_; }
  double log10_evidence() const { return log10_evidence_; }
  // The signal with most of the evidence.
  std::size_t strongest() const;
  const std::vector<std::string>& signals() const { return signals_; }
  int steps() const { return steps_; }

  // The logarithm of each signal's evidence: all that a test has to remember. resume() takes up where another stood.
  const std::vector<double>& log10_products() const { return log10_products_; }
  void resume(const std::vector<double>& log10_products, int steps);

 private:
  void combine();

  std::vector<std::string> signals_;
  std::vector<double> log10_products_;
  double threshold_, log10_evidence_ = 0;
  int steps_ = 0;
};

// The probability that a right candidate's deviation, in units of the noise, reaches `times`: the noise is known from
// `draws` samples only, so this is the tail of Student's distribution with as many degrees of freedom.
double probability_of(double times, int draws);

}  // namespace assay::train
