// Metamorphic gates: what must hold between a call and another whose inputs were changed in a known way,
// whatever the mathematics.
//
//   scaled    an input times 4: the outputs are the same bits times a power of 4, as long as nothing over- or
//             underflows. A constant hidden in the code, a clamp, a narrower range in between break it.
//   negated   an input that scales, times -1: the same bits but for signs. What is linear is both.
//   others    the slices of one half along a dim get other contents: the other half's results stay, to the
//             bit. What leaks from row to row breaks it.
//   permuted  the slices along a dim in another order: their results move with them.
//   split     some of the slices alone: their results stay.
//   padded    more slices after them: their results stay.
//   reseeded  another seed, where the formula names one: random draws are others, and independent of the first.
//
// Which of them hold follows from the reference itself: it is evaluated for the changed inputs too, and again
// for the very elements that differ before anything is said of them.
//
// Example:
//
//     Outputs first, second;
//     for (const Companion& companion : companions(contract, reference, bindings)) {
//       // second: the outputs of a call with companion.bindings, under the same condition (schedule, addresses).
//       // It is a legal call by itself, so judge() applies to it; and beside the first:
//       use(compare(contract, reference, bindings, companion, first, second));
//     }
//
// A sound kernel may choose its algorithm by the values it meets, so the first three draw warnings. It may
// also choose by the shape and by the place of a slice: bits of permuted, split and padded calls (and of
// others) are compared for the dims of `batch_invariant`, where a difference is an error. Elsewhere each of
// those calls must be within the budget by itself, and more cannot be asked of it.
#pragma once

#include <vector>

#include "judge/judge.h"

namespace assay::judge {

enum class Relation : uint8_t { Scaled, Negated, Others, Permuted, Split, Padded, Reseeded };
std::string_view to_string(Relation relation);

// How the elements of an output correspond: second[i] is first[from[i]] times `factor`.
struct Correspondence {
  std::vector<int64_t> from;  // one for each element of the second call's output; -1: nothing follows
  double factor = 1;
};

struct Companion {
  Relation relation = Relation::Scaled;
  std::string text;                               // "dy times 4", "the slices along T in another order"
  std::string dim;                                // along which slices were changed; empty: none
  contract::Bindings bindings;                    // of the second call
  std::map<std::string, Correspondence> outputs;  // those of which something follows
};

// Those that hold for these inputs: at most two for every input and four for every dim.
std::vector<Companion> companions(const contract::Contract& contract, const reference::Reference& reference,
                                  const contract::Bindings& bindings, uint64_t seed = 1);

// What differs though its bits should not. Values near the ends of their range are left out where they were
// scaled.
std::vector<Finding> compare(const contract::Contract& contract, const reference::Reference& reference,
                             const contract::Bindings& bindings, const Companion& companion,
                             const Outputs& first, const Outputs& second);

}  // namespace assay::judge
