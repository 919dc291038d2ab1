// An expression as text again, for messages and for telling equal ones.
#include <fmt/format.h>

#include "contract/formula.h"

namespace assay::contract {
namespace {

// With parentheses around what is itself an operation, so that equal texts mean equal trees.
std::string operand(const Expr& expr) {
  const bool compound =
      expr.kind == ExprKind::Binary || expr.kind == ExprKind::If || expr.kind == ExprKind::Unary;
  return compound ? "(" + to_text(expr) + ")" : to_text(expr);
}

std::string join(const std::vector<ExprPtr>& list, std::size_t first = 0) {
  std::string text;
  for (std::size_t i = first; i < list.size(); ++i) text += (i > first ? ", " : "") + to_text(*list[i]);
  return text;
}

}  // namespace

std::string to_text(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::Unary:
      return expr.name + (expr.name == "not" ? " " : "") + operand(*expr.children[0]);
    case ExprKind::Binary:
      return fmt::format("{} {} {}", operand(*expr.children[0]), expr.name, operand(*expr.children[1]));
    case ExprKind::Element:
      return fmt::format("{}[{}]", expr.name, join(expr.children));
    case ExprKind::Call:
      // What only a rewritten formula has (shifted.h): shifts as what they are, logarithms as sums.
      if (expr.name[0] == '\'')
        return expr.children.size() == 1
                   ? operand(*expr.children[0])
                   : fmt::format("({} + {})", operand(*expr.children[0]), operand(*expr.children[1]));
      return fmt::format("{}({})", expr.name, join(expr.children));
    case ExprKind::If:
      return fmt::format("if {} then {} else {}", to_text(*expr.children[0]), to_text(*expr.children[1]),
                         to_text(*expr.children[2]));
    case ExprKind::Reduce: {
      std::string indices;
      for (const Binder& binder : expr.binders) {
        indices += (indices.empty() ? "" : ", ") + binder.name;
        if (binder.low) indices += fmt::format(" in {}..{}", to_text(*binder.low), to_text(*binder.high));
      }
      if (expr.children.size() > 1) indices += " | " + to_text(*expr.children[1]);
      return fmt::format("{}[{}]({})", expr.name, indices, to_text(*expr.children[0]));
    }
    default:
      return expr.name;  // the token's own text
  }
}

}  // namespace assay::contract
