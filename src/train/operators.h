// The trusted operators: what each slot computes, in float or double.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "train/arithmetic.h"
#include "train/slots.h"

namespace assay::train {

// The operands of one call, by the names of the slot. Outputs have their extents and dtypes already.
template <class Real>
struct Operands {
  contract::Shape shape;
  std::vector<std::pair<std::string_view, Array<Real>*>> tensors;
  std::vector<std::pair<std::string_view, double>> scalars;

  Array<Real>* find(std::string_view name) const {
    for (const auto& [key, array] : tensors)
      if (key == name) return array;
    return nullptr;
  }
  Array<Real>& operator[](std::string_view name) const { return *find(name); }
  int64_t dim(std::string_view name) const { return shape.find(name)->second; }
  Real scalar(std::string_view name) const {
    for (const auto& [key, value] : scalars)
      if (key == name) return static_cast<Real>(value);
    return 0;
  }
};

// Computes the outputs. Sums and everything between inputs and outputs have the precision of Real; outputs are rounded to
// their dtypes once, where the arithmetic rounds.
template <class Real>
void compute(Team& team, const Slot& slot, const Arithmetic& arithmetic, Operands<Real>& operands);

}  // namespace assay::train
