// Instructions whose results two devices may differ in, though each executes them as PTX says.
#pragma once

#include <string>
#include <vector>

#include "finding/where.h"
#include "subject/subject.h"

namespace assay::subject {

struct MayDiffer {
  std::string what;  // "mul.f32 and add.f32: the GPU's compiler may fuse them"
  Where where;       // line 0: not known
};

// Of the subject's device code, each place once:
//
//   a product without a rounding modifier that goes into a sum without one, which ptxas may make one fused operation
//   atomic additions of floats, whose order is not fixed
//   products of matrices, whose sums tensor cores round in a way of their own
//   approximate functions
std::vector<MayDiffer> instructions_that_may_differ(const Subject& subject, const std::string& arch);

}  // namespace assay::subject
