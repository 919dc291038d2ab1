// The defects that diagnosis tries.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reference/reference.h"

namespace assay::judge {

struct Candidate {
  reference::Defect defect;
  std::string description;
  std::vector<std::string> inputs{};     // rounded before it is used; empty: none
  double (*narrowed)(double) = nullptr;  // how
};

// In the whole formula.
std::vector<Candidate> everywhere(const reference::Reference& reference);
// Sums in low precision, in one sum each.
std::vector<Candidate> in_one_sum(const reference::Reference& reference, const std::string& output,
                                  std::string_view narrow);
// One rounding too many.
std::vector<Candidate> in_one_value(const reference::Reference& reference, const std::string& output,
                                    contract::DType narrow);
// Inputs that are shortened on their way in.
std::vector<Candidate> of_inputs(const contract::Bindings& bindings);
contract::Bindings with_narrow_inputs(const contract::Bindings& bindings, const Candidate& candidate);
// A loop that ends where a grid, a counter or a tile does.
std::vector<Candidate> cut_short(const reference::Reference& reference, const contract::Bindings& bindings);

// What the code makes likely goes first; what is specific stays before what is general.
std::vector<Candidate> ordered(std::vector<Candidate> list, std::span<const Kind> hints);

}  // namespace assay::judge
