// How the integers of a tensor are drawn: ranges, indices without repetition, offsets. Private to families.cpp.
#pragma once

#include "trial/families.h"

namespace assay::trial {

// Small integers, of floats as well, so that sums are exact; the negative of it is the least.
inline constexpr int64_t kMostSmallInteger = 4;

Result<void> draw_integers(const contract::TensorSpec& spec, const contract::Shape& shape,
                           contract::Tensor& tensor, Family family, uint64_t seed);

}  // namespace assay::trial
