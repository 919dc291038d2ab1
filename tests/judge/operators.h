// Operators for the judge's tests: a contract each, implementations that are right in different ways, and
// wrong ones. An implementation computes on the CPU in float, as a kernel would, and stores through the
// output's dtype.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "judge/judge.h"
#include "reference/reference.h"

namespace assay::judge::testing {

using contract::Bindings;
using contract::Contract;
using contract::DType;
using contract::Tensor;

struct Call {
  const Contract& contract;
  const Bindings& bindings;

  int64_t dim(const char* name) const { return bindings.shape.find(name)->second; }
  float scalar(const char* name) const {
    return static_cast<float>(bindings.scalars.find(name)->second.as_double());
  }
  std::vector<float> in(const char* name) const;
  std::vector<int64_t> ints(const char* name) const;
  Tensor out(const char* name) const;
};

using Implementation = std::function<Outputs(const Call&)>;

struct Variant {
  std::string name;
  Implementation run;
  std::vector<Kind> kinds;  // that a finding about it may have; empty: it is right
  // A condition under which the defect must show; families by tensor, and dims.
  std::map<std::string, std::string> families;
  std::map<std::string, int64_t> shape;
  bool tensor_cores = false;
};

struct Operator {
  std::string name;
  std::string contract;
  std::vector<Variant> variants;
};

const std::vector<Operator>& operators();

}  // namespace assay::judge::testing
