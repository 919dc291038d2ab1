// What the kernel chose (reference/choices.h): whether each choice was a legal one, and whether many of them are
// distributed as they should be (draws.h).
//
//   random   the draw is read from its output, or told by an output's element: which of the two results it is
//   sr_bf16  one of the two neighbours of the exact value, as far as rounding lets it be known
//   sample   an index with a weight; its frequency by rank and by place
//   topk     indices that are an order of the largest, as far as rounding lets it be known
//
// What the kernel chose is then given to the reference, and everything that depends on it is judged as usual.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "judge/judge.h"

namespace assay::judge {

struct Choices {
  contract::Bindings bindings;  // those of the call, with what was chosen
  // Of outputs that tell a draw: the elements of which the draw is known. Only those can be judged.
  std::map<std::string, std::vector<int64_t>, std::less<>> told;
};

// Findings about the choices themselves go to `judgement`.
Result<Choices> judge_choices(const reference::Reference& reference, const contract::Bindings& bindings,
                              const Outputs& outputs, const Options& options, Judgement& judgement);

// Of two calls that differ in a seed: draws that are not independent of each other, at the same place or a few places
// apart (a seed that is added to the index shifts the draws).
std::vector<Finding> compare_draws(const reference::Reference& reference, const contract::Bindings& bindings,
                                   const contract::Bindings& reseeded, const Outputs& first,
                                   const Outputs& second);

}  // namespace assay::judge
