// The elements of one output as measured: what was stored, what was expected, and how they differ.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "judge/numbers.h"
#include "reference/reference.h"

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
  int threads = 1;
  bool overridden() const { return rtol.has_value() || atol.has_value(); }
};

// Of the numbers of a format.
class Spacing {
 public:
  explicit Spacing(contract::DType dtype);
  double at(double x) const;

 private:
  numerics::Format format_;
  int lowest_, fraction_bits_;
};

// Elements one at a time, each by itself.
class Gauge {
 public:
  Gauge(const contract::Tensor& tensor, const reference::Expectation& expected,
        const MeasureOptions& options);
  Element operator()(std::size_t i) const;  // of `expected`
  // The element beside what it should be, for a text; its limit is that of errors to its own side.
  Compared compared(std::size_t i) const;
  // Its error as a part of the largest that it may have; 0 where there is no such limit.
  double share_of_limit(std::size_t i) const;

 private:
  double rewritten(const Element& element, std::size_t i) const;
  double limit(const Element& element, std::size_t i) const;
  bool near_underflow(const Element& element) const;
  double started(const Element& element) const;
  void compare(Element& element, std::size_t i) const;
  bool admits(const Element& element, std::size_t i) const;

  const contract::Tensor& tensor_;
  const reference::Expectation& expected_;
  const MeasureOptions& options_;
  Spacing spacing_;
  bool either_;  // ties may go either way
  double unit_;  // roundoff of `accumulate`
  double tiny_;  // terms below it lose bits to underflow
};

// All elements, what the rows of long sums have in common taken out.
Measured measure(const std::string& output, const contract::Tensor& tensor,
                 const reference::Expectation& expected, const MeasureOptions& options);

// Whether one of the inputs that are added up has so few values, or is so well ordered, that sums are
// coherent.
bool sums_are_coherent(const contract::Bindings& bindings, const std::set<std::string>& summed);
// The same for all that an output adds up; or many of the inputs that it rounds are ties, which a kernel may round all one
// way.
bool sums_are_coherent(const contract::Bindings& bindings, const reference::Reference& reference,
                       const std::string& output);

// The expected square of round(v + e) - round(v), in ulps, where v lies `offset` ulps below its rounding
// (|offset| <= 1/2) and e is normal with standard deviation `sigma` ulps.
double expected_square(double offset, double sigma);
double exact_expected_square(double offset, double sigma);  // slowly, without a table

}  // namespace assay::judge
