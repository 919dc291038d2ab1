// Integer expressions over dims, with their structure: the language of contracts (sizes, ranges of indices)
// and of launch relations. Floor division; a value that leaves 62 bits is no value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "contract/contract.h"
#include "prove/term.h"

namespace assay::prove {

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

struct Expr {
  enum class Op : uint8_t { Literal, Dim, Add, Sub, Mul, Div, Mod, Min, Max, CeilDiv };
  Op op = Op::Literal;
  int64_t value = 0;  // Literal
  std::string name;   // Dim
  ExprPtr a, b;

  static ExprPtr literal(int64_t value);
  static ExprPtr dim(std::string name);
  static ExprPtr make(Op op, ExprPtr a, ExprPtr b);
};

Result<ExprPtr> parse_expr(std::string_view text);
std::string text(const Expr& expr);
std::optional<int64_t> evaluate(const Expr& expr, const contract::Shape& shape);

struct Interval {
  Int low = 0, high = 0;
};
// All values that the dims of the contract let it have, or more. None: it may leave 62 bits, or divide by
// something that is not positive.
std::optional<Interval> interval(const Expr& expr, const contract::Contract& contract);

// Whether a dim lies on one side of a number, as some launches ask.
struct DimLimit {
  std::string dim;
  int64_t value = 0;
  bool is_most = false;  // at most `value`; otherwise at least
};

// The dims as variables of a kernel's terms. A dim with `multiple_of = m` is m times a variable, so that what
// follows from divisibility follows by arithmetic.
class Dims {
 public:
  // Under `limits`, each of which must hold of every shape that the terms are used for: n - 2^30 is no negative number
  // where n is larger.
  Dims(Terms& terms, const contract::Contract& contract, const std::vector<DimLimit>& limits = {});
  Dims(const Dims&) = delete;

  Term term(std::string_view name) const;  // 64 bits
  // The expression as a 64-bit term. None where its interval is none: then 64 bits might not hold it.
  std::optional<Term> term(const Expr& expr);
  // The shape that a value for each variable means.
  contract::Shape shape(const std::map<Var, Int>& values) const;
  // With the ranges of the dims as the limits leave them.
  const contract::Contract& contract() const { return contract_; }

 private:
  Term build(const Expr& expr);
  void add_fact(const contract::DimRelation& relation);
  void add_list();

  Terms& terms_;
  contract::Contract contract_;
  std::map<std::string, Term, std::less<>> dims_;
  std::map<std::string, std::pair<Var, int64_t>, std::less<>> variables_;  // and the factor
};

}  // namespace assay::prove
