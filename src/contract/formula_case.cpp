#include "contract/formula_case.h"

#include <cmath>
#include <optional>

#include "contract/formula.h"

namespace assay::contract {
namespace {

class Condition {
 public:
  Condition(const Contract& contract, const Shape& shape, const Scalars& scalars)
      : contract_(contract), shape_(shape), scalars_(scalars) {}

  // Numbers are exact as long as they fit a double; conditions are 0 or 1.
  std::optional<double> value(const Expr& expr) const {
    switch (expr.kind) {
      case ExprKind::Integer:
      case ExprKind::Bool:
        return static_cast<double>(expr.integer);
      case ExprKind::Real:
        return expr.real;
      case ExprKind::Name:
        return named(expr.name);
      case ExprKind::Unary: {
        const std::optional<double> operand = value(*expr.children[0]);
        if (!operand) return std::nullopt;
        return expr.name == "-" ? -*operand : static_cast<double>(*operand == 0);
      }
      case ExprKind::Binary: {
        const std::optional<double> a = value(*expr.children[0]), b = value(*expr.children[1]);
        if (!a || !b) return std::nullopt;
        return combined(expr.name, *a, *b);
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<double> named(const std::string& name) const {
    if (const auto dim = shape_.find(name); dim != shape_.end()) return static_cast<double>(dim->second);
    if (const auto scalar = scalars_.find(name); scalar != scalars_.end()) return scalar->second.as_double();
    if (const DerivedDim* derived = contract_.derived_dim(name))
      if (const Result<int64_t> number = derived->value.eval(shape_)) return static_cast<double>(*number);
    return std::nullopt;
  }

  static std::optional<double> combined(const std::string& sign, double a, double b) {
    if (sign == "+") return a + b;
    if (sign == "-") return a - b;
    if (sign == "*") return a * b;
    if (sign == "/") return a / b;
    if (sign == "%") return a - b * std::floor(a / b);
    if (sign == "and") return a != 0 && b != 0;
    if (sign == "or") return a != 0 || b != 0;
    if (sign == "==") return a == b;
    if (sign == "!=") return a != b;
    if (sign == "<") return a < b;
    if (sign == "<=") return a <= b;
    if (sign == ">") return a > b;
    if (sign == ">=") return a >= b;
    return std::nullopt;
  }

  const Contract& contract_;
  const Shape& shape_;
  const Scalars& scalars_;
};

}  // namespace

bool holds(const FormulaCase& one, const Contract& contract, const Shape& shape, const Scalars& scalars) {
  return Condition(contract, shape, scalars).value(*one.when->statements[0].body).value_or(0) != 0;
}

const FormulaCase* chosen_case(const Contract& contract, const Shape& shape, const Scalars& scalars) {
  for (const FormulaCase& one : contract.reference.cases)
    if (holds(one, contract, shape, scalars)) return &one;
  return nullptr;
}

Contract with_case(const Contract& contract, const FormulaCase& one) {
  Contract own = contract;
  own.reference.cases.clear();
  own.reference.formula = one.formula;
  own.reference.formula_text = one.formula_text;
  own.reference.formula_place = one.formula_place;
  return own;
}

}  // namespace assay::contract
