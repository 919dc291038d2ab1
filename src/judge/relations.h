// Metamorphic gates: what must hold between a call and another whose inputs were changed in a known way,
// whatever the mathematics.
//
//   scaled    an input times 4: the outputs are the same bits times a power of 4, as long as nothing over- or
//             underflows. A constant hidden in the code, a clamp, a narrower range in between break it.
//   others    the slices of one half along a dim get other contents: the other half's results stay, to the
//   bit.
//             What leaks from row to row breaks it.
//
// Which of them hold follows from the reference itself: it is evaluated for the changed inputs too.
//
//   for (const Companion& companion : companions(contract, reference, bindings, seed)) {
//     second = outputs of a call with companion.bindings, under the same condition (schedule, addresses)
//     findings = compare(contract, companion, first, second);
//   }
//
// Neither is among the contract's promises: a sound kernel may choose its algorithm by the values it meets.
// So the findings are warnings. They are for kernels whose two calls each pass.
#pragma once

#include <vector>

#include "judge/judge.h"

namespace assay::judge {

enum class Relation : uint8_t { Scaled, Others };

struct Companion {
  Relation relation = Relation::Scaled;
  std::string text;                               // "dy times 4", "the second half along T changed"
  contract::Bindings bindings;                    // of the second call
  std::map<std::string, int> powers;              // scaled, by output: it is multiplied by 4 to this power
  std::map<std::string, std::vector<char>> kept;  // others, by output: elements that stay, one for each
};

// Those that hold for these inputs, at most one for every input and one for every dim.
std::vector<Companion> companions(const contract::Contract& contract, const contract::Reference& reference,
                                  const contract::Bindings& bindings, uint64_t seed = 1);

// What differs. Values near the ends of their range and nonfinite ones are left out.
std::vector<Finding> compare(const contract::Contract& contract, const Companion& companion,
                             const Outputs& first, const Outputs& second);

}  // namespace assay::judge
