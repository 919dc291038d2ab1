// Which of a contract's formulas a call is judged by.
#pragma once

#include <map>
#include <string>

#include "contract/contract.h"

namespace assay::contract {

using Scalars = std::map<std::string, Scalar, std::less<>>;

// Whether the condition of a [[case]] holds. Its names are dims and scalars (Reader has checked that); one without a
// value makes it false.
bool holds(const FormulaCase& one, const Contract& contract, const Shape& shape, const Scalars& scalars);

// The first case that holds; null: none, and the reference's own formula counts.
const FormulaCase* chosen_case(const Contract& contract, const Shape& shape, const Scalars& scalars);

// The contract with this case's formula as the only one.
Contract with_case(const Contract& contract, const FormulaCase& one);

}  // namespace assay::contract
