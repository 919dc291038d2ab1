// Complex numbers are pairs of real ones. A tensor of dtype c64 is held as one of f32 with a last dimension of 2, the
// real and the imaginary part, which is how memory holds it; and a formula is rewritten to say what happens to both:
//
//     y[i] = z[i] * w        becomes        y[i, part] = if part == 0 then z[i, 0] * w[0] - z[i, 1] * w[1]
//                                                                     else z[i, 0] * w[1] + z[i, 1] * w[0]
//
// Everything behind this room sees real numbers only, so exact values, budgets, input families and findings are those
// of the components.
#pragma once

#include <string>

#include "base/result.h"
#include "contract/contract.h"
#include "contract/formula.h"

namespace assay::contract {

// What a contract calls the type, and the type of a part.
struct ComplexType {
  std::string_view name;
  DType part;
};
inline constexpr ComplexType kComplexTypes[] = {{"c64", DType::f32}, {"c128", DType::f64}};

// The name of the `if` that tells the parts of a complex number apart on the left side.
inline constexpr std::string_view kPartChoice = "part";

// The names of the parts of a complex scalar, which is two scalars of the contract.
std::string real_part_of(std::string_view scalar);
std::string imaginary_part_of(std::string_view scalar);

// "c64", or the name of the dtype.
std::string_view type_name(const TensorSpec& tensor);
// "[17, 3].im" of a complex tensor whose element's coordinates end with its part; else as coordinates() has it.
std::string element_name(std::span<const int64_t> extents, int64_t element, bool is_complex);

// The formula in real numbers. One without complex numbers is returned as it is.
Result<Formula> in_real_numbers(const Contract& contract, Formula formula);

}  // namespace assay::contract
