// How the numbers of a tensor are drawn.
#pragma once

#include "trial/trial.h"

namespace assay::trial {

// The families that make sense for a tensor of these values, the most telling first. Nonfinite ones
// are left out: they are injected on purpose, into one tensor at a time.
std::vector<Family> families_for(const contract::TensorSpec& spec);

Result<contract::Tensor> draw(const contract::TensorSpec& spec, const contract::Shape& shape, Family family,
                              uint64_t seed);

}  // namespace assay::trial
