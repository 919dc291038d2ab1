// The elements of one output as measured: what was stored, what was expected, and how they differ.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "contract/reference.h"

namespace assay::judge {

struct Element {
  int64_t at = 0;  // linear index
  double stored = 0;
  double value = 0;    // exact
  double error = 0;    // stored - value
  double z = 0;        // error / sigma
  double rounded = 0;  // the value, correctly rounded to the output's dtype
  double scale = 0;    // the larger of the ulp there and the noise of a sound kernel; 0 where there is none
  double difference = 0;  // stored - rounded, in units of `scale`
  double expected = 0;    // of difference^2, for a sound kernel
  double terms = 1;
  double magnitude = 0;
  uint8_t flags = 0;
  bool admitted = true;
  bool class_differs = false;  // NaN, +inf, -inf, finite: not as it must be
  bool counts = false;         // takes part in statistics
};

struct Measured {
  std::string output;
  contract::DType dtype = contract::DType::f32;
  std::vector<int64_t> extents;
  std::vector<Element> elements;
  std::vector<double> low, high;  // admitted, for the report
  int64_t undecided = 0;

  int64_t columns() const { return extents.empty() ? 1 : extents.back(); }
  int64_t rows() const;
};

struct MeasureOptions {
  std::optional<double> rtol, atol;  // in place of the budget
  contract::DType accumulate = contract::DType::f32;
  // The inputs have few distinct values or rise along their rows: the roundings of a long sum repeat,
  // and its error is no random walk. Only the hard bound speaks then.
  bool coherent_sums = false;
  bool overridden() const { return rtol.has_value() || atol.has_value(); }
};

Measured measure(const std::string& output, const contract::Tensor& tensor,
                 const contract::Expectation& expected, const MeasureOptions& options);

// Whether one of the inputs that are added up has so few values, or is so well ordered, that sums are
// coherent.
bool sums_are_coherent(const contract::Bindings& bindings, const std::set<std::string>& summed);

// The expected square of round(v + e) - round(v), in ulps, where v lies `offset` ulps below its rounding
// (|offset| <= 1/2) and e is normal with standard deviation `sigma` ulps.
double expected_square(double offset, double sigma);

// A part of the output whose elements are judged together.
struct Bucket {
  std::string name;  // "row 17", "sums of 1000 to 9999 terms"; only where something is unlikely
  double count = 0;  // of elements that count
  double observed = 0, expected = 0;  // sums of difference^2
  double sum_yy = 0, sum_ey = 0;      // for the gain
  double log_p = 0;  // upper bound of the log probability, for a sound kernel, of a difference so large
};

// Every bucket, the whole first.
std::vector<Bucket> buckets(const Measured& measured);

}  // namespace assay::judge
