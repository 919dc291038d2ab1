// Scales: about the logarithm of the size of an expression with exps in it, and what can be done with them.
#pragma once

#include "contract/expr.h"
#include "reference/names.h"

namespace assay::reference {

// About log(size), or log2(size) if `two`. None: nothing here overflows unless the result does.
struct Scale {
  ExprPtr at;
  bool two = false;
  explicit operator bool() const { return at != nullptr; }
};

ExprPtr in_base(const Scale& scale, bool two);
Scale sum_of(const Scale& a, const Scale& b);
Scale difference_of(const Scale& a, const Scale& b);
Scale extreme_of(const Scale& a, const Scale& b, const char* which);  // no scale counts as 0
Scale times(const Scale& a, ExprPtr factor);

// A scale as something to shift by: what may be infinite in it (the maximum of nothing) is guarded.
Scale guarded(const Scale& scale);
bool is_shared(const Expr& scale);  // a number that many elements have in common

ExprPtr less(ExprPtr a, const Expr& m);  // a - m; null if they are the same
ExprPtr exp_of(ExprPtr exponent, bool two, Place place);
ExprPtr product(ExprPtr a, ExprPtr b);
ExprPtr quotient(ExprPtr a, ExprPtr b);
// `rest`, times exp of what is left of the scale `all` when m is taken out.
ExprPtr with_rest(ExprPtr rest, const Scale& all, const Scale& m);

// What an expression is.
bool is_exp(const Expr& expr);
bool is_function(const Expr& expr, std::string_view name);  // of one argument
bool is_power(const Expr& expr);
bool is_root(const Expr& expr);
bool is_sum(const Expr& expr);
bool is_comparison(const Expr& expr);
bool is_extreme_call(const Expr& expr);
bool is_float_cast(const Expr& expr);
bool changes_sign_only(const Expr& expr);

// `z[t[i]] += exp(x[i])`: the largest x of a place, and the sum that is shifted by it.
inline constexpr std::string_view kTop = "'top", kSum = "'sum";

}  // namespace assay::reference
