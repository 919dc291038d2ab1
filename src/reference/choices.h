// Statements whose value the kernel chooses: random draws, stochastic rounding, and orders in which equals may stand in
// any order. Their value is not computed; it is taken from the kernel's outputs, and the judge asks whether the choice
// was a legal one, and whether many of them are distributed as they should be (judge/choices.h).
//
//   keep[i] = random(p)          true with probability p; random(p, seed): another draw for another seed
//   t[b] = sample[v](w[b, v])    an index v, drawn with a probability proportional to its weight
//   y[i] = sr_bf16(e)            one of the two neighbours of e, the nearer one more often
//   o[r, j] = topk[c](x[r, c])   the index of the j-th largest; argsort[c]: of the j-th smallest
//
// Each is rewritten as two statements: one for what the choice is made by, which is evaluated as any other, and one that
// stands for the choice:
//
//   keep'[i] = p                 keep[i] = 'choice_bool(keep'[i])
//   t'[b, v] = w[b, v]           t[b] = 'choice_int(t'[b, 0])
//
// A `random` inside an expression becomes a statement of its own first.
#pragma once

#include <vector>

#include "contract/formula.h"
#include "reference/names.h"
#include "reference/reference.h"

namespace assay::reference {

// Functions that only a rewritten formula has: the value of a choice, by its type.
inline constexpr std::string_view kChoiceBool = "'choice_bool", kChoiceInt = "'choice_int",
                                  kChoiceFloat = "'choice_float";

struct WithChoices {
  Formula formula;
  std::vector<Choice> choices;  // in the order of the formula
};

// Errors: a choice where none can be made.
Result<WithChoices> separate_choices(const Contract& contract, const Formula& formula);

}  // namespace assay::reference
