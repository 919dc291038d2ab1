#include "reference/scale.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "reference/shifted.h"

namespace assay::reference {
namespace {

Scale copy(const Scale& scale) {
  return {scale.at ? clone(*scale.at) : nullptr, scale.two};
}

const Expr& without_guard(const Expr& expr) {
  return is_call(expr, kShift) || is_call(expr, kPivot) ? without_guard(*expr.children[0]) : expr;
}

bool same(const Expr& a, const Expr& b) {
  return canonical_text(without_guard(a)) == canonical_text(without_guard(b));
}

// One scale from two, in the base of both, or e.
Scale joined(const Scale& a, const Scale& b, ExprPtr (*join)(ExprPtr, ExprPtr)) {
  const bool two = a.two && b.two;
  return {join(in_base(a, two), in_base(b, two)), two};
}

}  // namespace

ExprPtr in_base(const Scale& scale, bool two) {
  ExprPtr at = clone(*scale.at);
  if (scale.two == two) return at;
  return binary("*", std::move(at), real(two ? std::numbers::log2e : std::numbers::ln2, scale.at->place));
}

// a - m; null if they are the same.
ExprPtr less(ExprPtr a, const Expr& m) {
  if (same(*a, m)) return nullptr;
  return binary("-", std::move(a), clone(m));
}

ExprPtr exp_of(ExprPtr exponent, bool two, Place place) {
  return exponent ? call(two ? "exp2" : "exp", std::move(exponent)) : integer(1, place);
}

ExprPtr product(ExprPtr a, ExprPtr b) {
  if (is_integer(*a, 1)) return b;
  if (is_integer(*b, 1)) return a;
  return binary("*", std::move(a), std::move(b));
}

ExprPtr quotient(ExprPtr a, ExprPtr b) {
  if (is_integer(*b, 1)) return a;
  return binary("/", std::move(a), std::move(b));
}

Scale sum_of(const Scale& a, const Scale& b) {
  if (!a || !b) return copy(a ? a : b);
  return joined(a, b, [](ExprPtr x, ExprPtr y) { return binary("+", std::move(x), std::move(y)); });
}

Scale difference_of(const Scale& a, const Scale& b) {
  if (!b) return copy(a);
  if (!a) return {minus(clone(*b.at)), b.two};
  return joined(a, b, [](ExprPtr x, ExprPtr y) { return binary("-", std::move(x), std::move(y)); });
}

// The larger, or the smaller; nothing to scale counts as 0.
Scale extreme_of(const Scale& a, const Scale& b, const char* which) {
  if (!a && !b) return {};
  const Place place = (a ? a : b).at->place;
  Scale zero{integer(0, place), (a ? a : b).two};
  const Scale &x = a ? a : zero, &y = b ? b : zero;
  const bool two = x.two && y.two;
  return {call(which, in_base(x, two), in_base(y, two)), two};
}

Scale times(const Scale& a, ExprPtr factor) {
  return {product(std::move(factor), clone(*a.at)), a.two};
}

bool is_function(const Expr& expr, std::string_view name) {
  return is_call(expr, name) && expr.children.size() == 1;
}

bool is_exp(const Expr& expr) {
  return is_function(expr, "exp") || is_function(expr, "exp2");
}

bool is_power(const Expr& expr) {
  return is_binary(expr, "^") || (is_call(expr, "pow") && expr.children.size() == 2);
}

bool is_root(const Expr& expr) {
  return is_function(expr, "sqrt") || is_function(expr, "rsqrt");
}

bool is_sum(const Expr& expr) {
  return is_binary(expr, "+") || is_binary(expr, "-");
}

bool is_comparison(const Expr& expr) {
  constexpr std::string_view kSigns[] = {"<", "<=", ">", ">=", "==", "!="};
  return expr.kind == ExprKind::Binary && std::ranges::find(kSigns, expr.name) != std::end(kSigns);
}

bool is_extreme_call(const Expr& expr) {
  return expr.kind == ExprKind::Call && (expr.name == "max" || expr.name == "min") &&
         expr.children.size() >= 2;
}

// bf16(...), f16(...): rounding is the same at every scale. Formats that saturate are not.
bool is_float_cast(const Expr& expr) {
  if (expr.kind != ExprKind::Call || expr.children.size() != 1) return false;
  const auto dtype = dtype_named(expr.name);
  return dtype && is_float(*dtype) && !info(*dtype).saturates;
}

bool changes_sign_only(const Expr& expr) {
  return (expr.kind == ExprKind::Unary && expr.name != "not") || is_function(expr, "abs");
}

// A number that many elements share.
bool is_shared(const Expr& scale) {
  return scale.kind == ExprKind::Reduce || (scale.kind == ExprKind::Element && scale.name.ends_with(kTop)) ||
         std::ranges::any_of(scale.children, [](const ExprPtr& child) { return is_shared(*child); });
}

namespace {

// A scale as something to shift by: what may be infinite in it (the maximum of nothing) is guarded.
ExprPtr guarded(ExprPtr at) {
  const bool chosen = is_extreme_call(*at) || at->kind == ExprKind::If;
  if (chosen || at->kind == ExprKind::Reduce || at->kind == ExprKind::Element)
    return is_shared(*at) ? call(std::string(kShift), std::move(at))
           : chosen       ? call(std::string(kPivot), std::move(at))
                          : std::move(at);
  if (is_sum(*at) || is_binary(*at, "*") || at->kind == ExprKind::Unary)
    for (ExprPtr& child : at->children) child = guarded(std::move(child));
  return at;
}

}  // namespace

Scale guarded(const Scale& scale) {
  return {guarded(clone(*scale.at)), scale.two};
}

// `rest`, times exp of what is left of the scale `all` when m is taken out.
ExprPtr with_rest(ExprPtr rest, const Scale& all, const Scale& m) {
  const bool two = all.two && m.two;
  const Place place = rest->place;
  return product(std::move(rest), exp_of(less(in_base(guarded(all), two), *in_base(m, two)), two, place));
}

}  // namespace assay::reference
