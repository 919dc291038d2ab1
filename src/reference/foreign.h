// References that are not formulas: Python functions, and providers given by others.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic.h"
#include "reference/reference.h"

namespace assay::reference {

// A provider gives each output exactly, as "name", and what it loses when the reference computes in f32 from
// inputs moved by about their rounding, over kWorkingRuns runs: the root mean square as "name@spread", the
// largest as "name@largest". How far an output moves then is its condition, also where the reference itself
// works in float64.
constexpr std::string_view kSpread = "@spread", kLargest = "@largest";
constexpr int kWorkingRuns = 8;

struct ForeignOutput {
  Tensor exact, spread, largest;  // float64
  double terms = 1;               // the longest sum that an element may be
};

// Everything that the reference gives for these inputs.
Result<std::map<std::string, Tensor>> run_foreign(const Contract& contract, const Bindings& bindings,
                                                  const ReferenceProvider& provider);
// One output of it, verified.
Result<ForeignOutput> foreign_output(const Contract& contract, const Bindings& bindings,
                                     const std::map<std::string, Tensor>& outputs, const std::string& output);

// Terms of the longest sum that an element of an output may be, going by the dims.
double longest_sum(const Contract& contract, const Bindings& bindings, const TensorSpec& output);

// The same-precision rule: what the reference itself loses in the declared precision, with a margin, by the
// size of the result and by how it is conditioned; and what a sum of that many terms loses in any order.
class ForeignBudget {
 public:
  ForeignBudget(const ForeignOutput& output, const Precision& precision);
  double bound(int64_t element) const;
  double variance(int64_t element) const;

 private:
  struct Losses {
    std::map<int, double> largest, squares, counts;  // by bucket
    void add(double size, double largest_loss, double square);
    double largest_at(double size) const;
    double square_at(double size) const;
  };
  double spread(int64_t element) const;

  const ForeignOutput& output_;
  double u_ = 0, eta_ = 0, scale_ = 1;
  Losses by_value_, by_spread_;
};

}  // namespace assay::reference
