// Conditions on the dims that tell the shapes of one case of the launch relation from those of the others.
//
// Conditions that hold for all shapes of a case and together for none of the others: on one dim, or that one dim is
// a multiple of something and another (or the same) has a range, as host code has for vectors. The end of a range
// lies somewhere between shapes that were seen: it is found by halving, running the host code each time.
#pragma once

#include <functional>
#include <vector>

#include "prove/relation.h"

namespace assay::prove {

// `belongs`: whether the host code does at a shape what it does at those of the case. Where no conditions tell the shapes
// apart, those that hold for the case's and not for some others: the shapes of cases may overlap.
std::vector<Condition> separating(const contract::Contract& contract, std::vector<const contract::Shape*> own,
                                  std::vector<const contract::Shape*> others,
                                  std::function<bool(const contract::Shape&)> belongs);

}  // namespace assay::prove
