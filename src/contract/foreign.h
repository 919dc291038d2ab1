// References that are not formulas: Python functions, and providers given by others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contract/block.h"
#include "contract/reference.h"

namespace assay::contract {

struct ForeignOutput {
  Tensor exact;    // float64
  Tensor working;  // the same function in the declared precision; no extents if it could not be run
  bool has_working = false;
};

// Everything that the reference gives for these inputs.
Result<std::map<std::string, Tensor>> run_foreign(const Contract& contract, const Bindings& bindings,
                                                  const ReferenceProvider& provider);
// One output of it, verified.
Result<ForeignOutput> foreign_output(const Contract& contract, const Bindings& bindings,
                                     const std::map<std::string, Tensor>& outputs, const std::string& output);

// The same-precision rule: what the reference itself loses when it computes in the
// declared precision, by size of the result, with a margin.
class ForeignBudget {
 public:
  ForeignBudget(const ForeignOutput& output, const Precision& precision);
  double bound(double value) const;
  double variance(double value) const;

 private:
  static int bucket(double value);
  double u_ = 0, eta_ = 0;
  std::map<int, double> largest_, squares_;  // by bucket of magnitude
};

}  // namespace assay::contract
