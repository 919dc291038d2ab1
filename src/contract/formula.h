// The formula language as a tree. Names are not resolved here; program.h does that.
//
//   statement  = name [ "[" left {"," left} "]" ] ("=" | "+=" | "max=" | "min=") expr
//   left       = expr [ "in" expr ".." expr ]
//   expr       = "if" expr "then" expr "else" expr | or
//   or         = and {"or" and}          and = not {"and" not}      not = {"not"} comparison
//   comparison = sum {("<" | "<=" | ">" | ">=" | "==" | "!=") sum}  (a chain means `and`)
//   sum        = product {("+" | "-") product}
//   product    = unary {("*" | "/" | "%") unary}
//   unary      = {"-" | "+"} power       power = primary ["^" unary]
//   primary    = number | "inf" | "nan" | "true" | "false" | "(" expr ")"
//              | name [ "[" expr {"," expr} "]" ] | function "(" expr {"," expr} ")"
//              | reduction "[" binder {"," binder} ["|" expr] "]" "(" expr ")"
//              | "present" "(" name ")"
//   binder     = name [ "in" expr ".." expr ]
//
// A line break ends a statement, except inside brackets, after an operator, and
// before a line that begins with one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "contract/contract.h"

namespace assay::contract {

enum class ExprKind : uint8_t { Integer, Real, Bool, Name, Element, Call, Unary, Binary, If, Reduce };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// Of the outermost sign of a sum of terms that kernels may add in any order.
inline constexpr int64_t kAnyOrder = 16;

// An index of a reduction or of the left side, with its range if one is given.
struct Binder {
  std::string name;
  Place place;
  ExprPtr low, high;  // both or neither
};

struct Expr {
  ExprKind kind = ExprKind::Integer;
  Place place;          // in the contract file
  std::string name;     // Name, Element, Call, Reduce; the sign of Unary and Binary
  int64_t integer = 0;  // Binary: kAnyOrder, or 0
  double real = 0;
  std::vector<ExprPtr> children;  // operands; subscripts; If: condition, then, else; Reduce: body, [filter]
  std::vector<Binder> binders;    // of Reduce
};

enum class AssignKind : uint8_t { Set, Sum, Max, Min };

struct Left {
  ExprPtr expr;       // a plain Name is an index; anything else a computed place
  ExprPtr low, high;  // `name[i in 0..n]`
};

struct Statement {
  std::string name;
  Place place;
  std::vector<Left> left;
  bool is_element = false;  // has brackets
  AssignKind kind = AssignKind::Set;
  ExprPtr body;
  std::vector<Binder>
      loops;  // of a sum, besides the indices that the body names; not written by users (complex.h)
};

struct Formula {
  std::vector<Statement> statements;
};

// `places` has the place in the contract file of each byte of the text, and of its end. `names` are those
// that the contract gives, which may be those of functions and reductions, too: `mean[c]` is a tensor's
// element then, `mean[c](x)` never.
Result<Formula> parse_formula(std::string_view text, const std::vector<Place>& places,
                              const std::string& file, const std::vector<std::string>& names = {});
// The same for a text that is not in the file as it stands: all of it has one place.
Result<Formula> parse_formula(std::string_view text, Place place, const std::string& file,
                              const std::vector<std::string>& names = {});

// Words that name nothing else, and those that cannot name a dim or an index.
bool is_keyword(std::string_view word);
bool is_reserved(std::string_view word);
// The words that `name(` may be, for suggestions.
const std::vector<std::string>& function_names();
bool is_reduction(std::string_view word);
// Of sr_bf16 and its like: the type that is rounded to.
std::optional<DType> stochastic_rounding(std::string_view word);

// The expression as text, for messages.
std::string to_text(const Expr& expr);

}  // namespace assay::contract
