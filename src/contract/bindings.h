// The arguments of one call: what its result may depend on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "contract/contract.h"

namespace assay::contract {

struct Bindings {
  Shape shape;
  std::map<std::string, Scalar, std::less<>> scalars;
  // Every `in` tensor, and the value before the call of every `inout` one.
  // Shared so that trials with the same inputs do not copy them.
  std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> inputs;
};

}  // namespace assay::contract
