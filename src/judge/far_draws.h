// Random draws of elements that lie 2^31 and more apart, in a call of which only some blocks were run.
//
// A counter of 32 bits that numbers the draws repeats after 2^32 of them. No tensor that is run whole shows that, but the
// blocks that a sample runs lie at both ends of the tensor and about 2^31 and 2^32: what two of them drew at equal
// distances must be independent.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "judge/judge.h"

namespace assay::judge {

// First element and number of elements, in order.
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

// `written`: by output, what was written. `options.on_read` makes the inputs.
std::vector<Finding> judge_far_draws(const reference::Reference& reference,
                                     const contract::Bindings& bindings, const Outputs& outputs,
                                     const std::map<std::string, Ranges>& written, const Options& options);

}  // namespace assay::judge
